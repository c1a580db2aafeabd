"""Chooses a recipe: clipping by tensor, equalization by pair of layers, bias and precision by layer.

What a choice does to a node's output, fed with float32, decides it (`measure_nodes`); what that makes of the outputs
decides between whole recipes.  Layers that no int8 follows may give float32.  Then nodes that spoil the outputs get
more precision, one at a time: a product of rows quantizes them as they come, anything else runs in float32.  Nothing
depends on time: the same samples give the same recipe.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from alcove.runtime.compiler.graph import Graph
from alcove.runtime.compiler.quantize.calibrate import Sample, observe
from alcove.runtime.compiler.quantize.cross_layer_equalization import chains
from alcove.runtime.compiler.quantize.emitter import emit
from alcove.runtime.compiler.quantize.noise import TINY, MetricDrop, NodeNoise, OutputNoise, measure_nodes, spread
from alcove.runtime.compiler.quantize.options import CLIPPINGS, Budget, Clipping, Precision, Quantization
from alcove.runtime.compiler.quantize.partitioner import Regions, choose, tensors, without_residuals
from alcove.runtime.compiler.quantize.quantizable_ops import activations, is_narrow, is_product_of_rows
from alcove.runtime.compiler.quantize.recipe import COSTS, NARROW, PINNED, Drop, Recipe
from alcove.runtime.compiler.quantize.report import layer_name

MOST_TRIALS: Final = 96
"""Whole programs that are made and run for one choice; a budget's bisection comes on top."""
ENOUGH: Final = 0.003
"""Noise of the outputs, as a share of their energy (25 dB), below which no node needs more precision."""
SHARE: Final = 0.25
"""A node that makes so much of the outputs' noise by itself gets more precision even without a budget."""
MARGIN: Final = 0.95
"""Something else than the usual is chosen where it leaves at most this share of the noise."""
_CANDIDATES: Final = 24
_BY_ROWS: Final[Precision] = "int8 dynamic"
_UPGRADES: Final = 8

Noise = Mapping[int, NodeNoise]


@dataclass(frozen=True)
class Selection:
    """A recipe and what was seen on the way to it.

    Attributes:
        recipe: as chosen.
        noise: of each int8 node by itself under it.
        dynamic: of each product of rows by itself, with rows that are quantized as they come.
        drop: of the whole, on the budget's metric.
        notes: index of a node -> what was chosen for it and why.
        whole: what was chosen for all layers at once and why; empty where each has its own.
        trials: whole programs that were made and run.
    """

    recipe: Recipe
    noise: Noise
    dynamic: Noise
    drop: float
    notes: Mapping[int, list[str]] = field(default_factory=dict)
    whole: str = ""
    trials: int = 0


def select(exact: Graph, graph: Graph, options: Quantization, samples: Sequence[Sample], budget: Budget) -> Selection:
    """Return the best recipe that was found for a fused graph.

    Args:
        exact: float32 throughout, with fixed sizes.
        graph: the same, with its tables in int8.
        options: of mode "int8"; what they fix is not chosen.
        samples: at least one.
        budget: nodes get more precision until it is kept.

    Raises:
        CalibrationError: a sample makes a number that is not finite.
        ValueError: the options name a layer that there is not.
    """
    return _Selector(exact, graph, options, samples, budget).run()


class _Selector:
    def __init__(
        self, exact: Graph, graph: Graph, options: Quantization, samples: Sequence[Sample], budget: Budget
    ) -> None:
        self.exact, self.graph, self.options, self.budget = exact, graph, options, budget
        self.samples = samples
        self.few = spread(samples)
        self.plain = without_residuals(graph)
        self.pinned = self._pins()
        self.notes: dict[int, list[str]] = {}
        self.trials = 0
        self.whole = ""
        self.output_noise: OutputNoise | None = None

    def run(self) -> Selection:
        recipe = self._best_whole(self._local())
        base = recipe.prepare(self.graph)
        noise = measure_nodes(base, recipe.settings(base), self.few)
        products = self._products(base, noise)
        dynamic = measure_nodes(base, recipe.settings(base), self.few, dynamic=products) if products else {}
        recipe = self._free_ends(recipe, base, noise, dynamic)
        drop_of = self._drop()
        drop = drop_of(recipe.apply(self.graph))
        upgrades = _Upgrades(self, recipe, base, noise, dynamic)
        if self.budget.max_drop is None:
            better = upgrades.without_budget()
            drop = drop if better is recipe else drop_of(better.apply(self.graph))
            recipe = better
        elif drop > self.budget.max_drop:
            recipe, drop = upgrades.within(drop_of, self.budget.max_drop)
        return Selection(recipe, noise, dynamic, drop, self.notes, self.whole, self.trials)

    def note(self, index: int, text: str) -> None:
        self.notes.setdefault(index, []).append(text)

    def whole_noise(self, recipe: Recipe, base: Graph | None = None) -> float:
        """Return the noise of the outputs under a recipe; `base` is what it prepares, if that is known."""
        if self.output_noise is None:
            self.output_noise = OutputNoise(self.exact, self.few)
        self.trials += 1
        base = recipe.prepare(self.graph) if base is None else base
        return self.output_noise(emit(base, recipe.settings(base)))

    def _drop(self) -> Drop:
        if self.budget.metric is not None:
            return MetricDrop(self.exact, self.budget.metric)
        return OutputNoise(self.exact, self.samples)

    def _pins(self) -> dict[int, Precision]:
        names = {
            index: layer_name(node.origin.module_path, node.outputs[0]) for index, node in enumerate(self.plain.nodes)
        }
        unknown = set(self.options.layers) - set(names.values())
        if unknown:
            raise ValueError(f"Quantization.layers names {min(unknown)!r}, which is no layer of the module")
        return {index: self.options.layers[name] for index, name in names.items() if name in self.options.layers}

    # -- choices that a node's own output decides -------------------------------------------------------------------

    def _start(self, *, is_equalized: bool) -> Recipe:
        others: dict[int, Precision] = {
            index: precision for index, precision in self.pinned.items() if precision != "int8"
        }
        for index, precision in others.items():
            if precision == "int8 dynamic" and not is_product_of_rows(self.plain, self.plain.nodes[index]):
                others[index] = "float32"
        narrow = [index for index, node in enumerate(self.plain.nodes) if is_narrow(self.plain, node)]
        unasked: dict[int, Precision] = {index: "float32" for index in narrow if index not in self.pinned}
        recipe = Recipe(
            {},
            self.options.clipping or "mse",
            precisions=others | unasked,
            reasons=dict.fromkeys(others, PINNED) | dict.fromkeys(unasked, NARROW),
            unequalized=frozenset() if is_equalized else None,
            uncorrected=None if self.options.correct_bias is False else frozenset(),
        )
        return self._observe(recipe)

    def _observe(self, recipe: Recipe) -> Recipe:
        base = recipe.prepare(self.graph)
        needed = tensors(base, choose(base, recipe.reasons))
        clipping: Clipping = self.options.clipping or "mse"
        return replace(recipe, observers=observe(base, needed, self.samples, clipping))

    def _local(self) -> Recipe:
        recipe = self._start(is_equalized=self.options.equalize is not False)
        recipe = self._choose_equalization(recipe) if self.options.equalize is None else recipe
        base = recipe.prepare(self.graph)
        usual = measure_nodes(base, recipe.settings(base), self.few)
        recipe = self._choose_biases(recipe, base, usual) if self.options.correct_bias is None else recipe
        return self._choose_clippings(recipe, base, usual) if self.options.clipping is None else recipe

    def _choose_equalization(self, recipe: Recipe) -> Recipe:
        """Leave alone the layers that lose by it: what the second of a pair gives is the same function either way."""
        groups = chains(self.plain)
        if not groups:
            return recipe
        other = self._start(is_equalized=False)
        base = recipe.prepare(self.graph)
        shared = measure_nodes(base, recipe.settings(base), self.few)
        alone = measure_nodes(self.plain, other.settings(self.plain), self.few)
        untouched: set[int] = set()
        for chain in groups:
            seconds = {second for _, second in chain if second in shared and second in alone}
            if not seconds:
                continue
            ours, theirs = (sum(noise[index].relative for index in seconds) for noise in (shared, alone))
            members = {index for pair in chain for index in pair}
            if theirs < MARGIN * ours:
                untouched |= members
            for index in members & set(shared):
                self.note(index, _compare("equalized", "not equalized", ours, theirs))
        if not untouched:
            return recipe
        if untouched == {index for chain in groups for pair in chain for index in pair}:
            return other
        return self._observe(replace(recipe, unequalized=frozenset(untouched)))

    def _choose_biases(self, recipe: Recipe, base: Graph, usual: Noise) -> Recipe:
        other = measure_nodes(base, replace(recipe, uncorrected=None).settings(base), self.few)
        worse = {index for index in usual if other[index].relative < MARGIN * usual[index].relative}
        for index in worse:
            self.note(
                index, _compare("bias corrected", "bias not corrected", usual[index].relative, other[index].relative)
            )
        return replace(recipe, uncorrected=frozenset(worse))

    def _choose_clippings(self, recipe: Recipe, base: Graph, usual: Noise) -> Recipe:
        """Take for each tensor the range that leaves the nodes that write or read it the least noise."""
        noise: dict[Clipping, Noise] = {"mse": usual}
        for clipping in CLIPPINGS[1:]:
            noise[clipping] = measure_nodes(base, replace(recipe, clipping=clipping).settings(base), self.few)
        regions = recipe.regions(base)
        around: dict[str, set[int]] = {}
        for index in usual:
            clamp = regions.clamps.get(index)
            out = base.nodes[index if clamp is None else clamp].outputs[0]
            for key in (*activations(base, base.nodes[index]), out):
                around.setdefault(regions.root(key), set()).add(index)
        chosen: dict[str, Clipping] = {}
        for root, nodes in around.items():
            sums = {clipping: sum(noise[clipping][index].relative for index in nodes) for clipping in CLIPPINGS}
            best = min(CLIPPINGS, key=lambda clipping: sums[clipping])
            if sums[best] >= MARGIN * sums["mse"]:
                continue
            chosen[root] = best
            for index in nodes:
                if regions.root(base.nodes[index].outputs[0]) == root:
                    self.note(index, _compare("range by mse", f"range by {best}", sums["mse"], sums[best]))
        return replace(recipe, clippings=chosen)

    def _best_whole(self, recipe: Recipe) -> Recipe:
        """Return the recipe, or the usual one for all layers where that leaves the outputs less noise."""
        usual = self._start(is_equalized=True) if self.options.equalize is None else recipe
        usual = replace(usual, clippings={}, uncorrected=None if self.options.correct_bias is False else frozenset())
        if (usual.unequalized, usual.uncorrected, usual.clippings) == (
            recipe.unequalized,
            recipe.uncorrected,
            recipe.clippings,
        ):
            return recipe
        others = [usual]
        if self.options.clipping is None:
            others.append(replace(recipe, clippings={}))
            others.append(replace(recipe, clippings={}, clipping="minmax"))
        noises = [self.whole_noise(one) for one in (recipe, *others)]
        best = min(range(len(noises)), key=noises.__getitem__)
        if best == 0:
            return recipe
        names = ("", "the usual recipe", "ranges by mse", "ranges by minmax")
        if not (best == 2 and recipe.unequalized):
            self.notes = {}
        self.whole = (
            f"{names[best]} for all layers: {noises[best] / max(noises[0], TINY):.2f} of the noise of each its own"
        )
        return others[best - 1]

    def _products(self, base: Graph, noise: Noise) -> set[int]:
        return {
            index for index in noise if self.pinned.get(index) is None and is_product_of_rows(base, base.nodes[index])
        }

    def _free_ends(self, recipe: Recipe, base: Graph, noise: Noise, dynamic: Noise) -> Recipe:
        """Let the last layers give float32, where that leaves the outputs less noise: what reads them needs no int8."""
        regions = recipe.regions(base)
        ends = [index for index in dynamic if not _is_read_as_int8(base, regions, index)]
        if not ends:
            return recipe
        why = {index: f"what it gives is not rounded{_by_rows(noise[index], dynamic[index])}" for index in ends}
        other = replace(
            recipe,
            precisions={**recipe.precisions, **dict.fromkeys(ends, _BY_ROWS)},
            reasons={**recipe.reasons, **why},
        )
        ours, theirs = self.whole_noise(recipe, base), self.whole_noise(other, base)
        return other if theirs < MARGIN * ours else recipe


def _is_read_as_int8(base: Graph, regions: Regions, index: int) -> bool:
    """Return whether int8 arithmetic follows a node, at once or behind what only moves elements."""
    clamp = regions.clamps.get(index)
    out = base.nodes[index if clamp is None else clamp].outputs[0]
    readers = [reader for reader in regions.kinds if out in base.nodes[reader].inputs]
    return any(regions.kinds[each] != "movement" or _is_read_as_int8(base, regions, each) for each in readers)


def _compare(usual: str, other: str, ours: float, theirs: float) -> str:
    """Return what was chosen, and what the other would have left of noise beside it."""
    is_other = theirs < MARGIN * ours
    left, right = (other, usual) if is_other else (usual, other)
    factor = (theirs / ours if is_other else ours / theirs) if min(ours, theirs) > 0 else 1.0
    return f"{left} ({factor:.2f} of the noise of {right})"


def _by_rows(ours: NodeNoise, theirs: NodeNoise) -> str:
    """Return what quantizing each row does for a product, for a report."""
    if ours.db is None or theirs.db is None:
        return ""
    return f"; each row by its own range: {theirs.db:.1f} dB, one range: {ours.db:.1f} dB"


class _Upgrades:
    """Gives nodes more precision."""

    def __init__(self, selector: _Selector, recipe: Recipe, base: Graph, noise: Noise, dynamic: Noise) -> None:
        self.selector, self.recipe, self.base = selector, recipe, base
        self.noise, self.dynamic = noise, dynamic
        movable = [index for index in noise if selector.pinned.get(index) is None]
        self.order = sorted(movable, key=lambda index: -(noise[index].relative + noise[index].uneven))

    def first(self, index: int) -> Precision:
        """Return the next better precision of a node in static int8."""
        other = self.dynamic.get(index)
        is_better = other is not None and other.relative < 0.5 * self.noise[index].relative
        return "int8 dynamic" if is_better else "float32"

    def reason(self, index: int, precision: Precision, share: float | None) -> str:
        text = COSTS if share is None else f"by itself it made {share:.0%} of the noise of the outputs"
        is_by_rows = precision == _BY_ROWS and index in self.dynamic
        return text + _by_rows(self.noise[index], self.dynamic[index]) if is_by_rows else text

    def apply(self, recipe: Recipe, changes: Sequence[tuple[int, Precision]], share: float | None = None) -> Recipe:
        precisions, reasons = dict(recipe.precisions), dict(recipe.reasons)
        for index, precision in changes:
            precisions[index] = precision
            reasons[index] = self.reason(index, precision, share)
        return replace(recipe, precisions=precisions, reasons=reasons)

    def without_budget(self) -> Recipe:
        """Return a recipe in which no node by itself makes most of the noise of outputs that have much."""
        recipe, selector = self.recipe, self.selector
        total = selector.whole_noise(recipe, self.base)
        for _ in range(_UPGRADES):
            if total <= ENOUGH or selector.trials > MOST_TRIALS:
                break
            gains = self.gains(recipe, total)
            if not gains:
                break
            index = max(gains, key=gains.__getitem__)
            share = gains[index] / total
            if share < SHARE:
                break
            recipe = self.apply(recipe, [(index, self.first(index))], share)
            total -= gains[index]
        return recipe

    def gains(self, recipe: Recipe, total: float) -> dict[int, float]:
        """Return how much less noise the outputs have with more precision for each of the likely nodes."""
        found = {}
        static = recipe.regions(self.base).kinds
        for index in [index for index in self.order if index in static][:_CANDIDATES]:
            if self.selector.trials > MOST_TRIALS:
                break
            changed = self.apply(recipe, [(index, self.first(index))])
            found[index] = total - self.selector.whole_noise(changed, self.base)
        return found

    def within(self, drop_of: Drop, max_drop: float) -> tuple[Recipe, float]:
        """Return a recipe that keeps a budget by as few changes as bisection finds, and its drop.

        Nodes change in the order of what that takes from the noise of the outputs; at last all are float32.
        """
        gains = self.gains(self.recipe, self.selector.whole_noise(self.recipe, self.base))
        likely = sorted(gains, key=lambda index: -gains[index])
        order = [*likely, *(index for index in self.order if index not in gains)]
        steps: list[tuple[int, Precision]] = [(index, self.first(index)) for index in order]
        dynamic = [index for index, precision in steps if precision == _BY_ROWS]
        steps.extend((index, "float32") for index in dynamic)
        tried: dict[int, tuple[Recipe, float]] = {}

        def fits(count: int) -> bool:
            changed = self.apply(self.recipe, steps[:count])
            tried[count] = (changed, drop_of(changed.apply(self.selector.graph)))
            self.selector.trials += 1
            return tried[count][1] <= max_drop

        enough = 1
        while enough < len(steps) and not fits(enough):
            enough = min(2 * enough, len(steps))
        if enough not in tried:
            fits(enough)
        least = enough // 2 + 1
        while least < enough:
            middle = (least + enough) // 2
            if fits(middle):
                enough = middle
            else:
                least = middle + 1
        return tried[enough]


def describe(index: int, selection: Selection) -> str:
    """Return what a report says was chosen for a node."""
    precision = selection.recipe.precisions.get(index)
    parts = [] if precision is None else [f"{precision}: {selection.recipe.reasons[index]}"]
    if precision in {None, _BY_ROWS}:
        parts += selection.notes.get(index, [])
    return "; ".join(parts)
