"""Lists the lines of random modules that compute with sizes: slices, paddings, windows and joins that follow them.

A size is any number made of the sizes of a value: quotients, remainders and bounds among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.modules.templates import TEMPLATES, Template

if TYPE_CHECKING:
    from benchmarks.modules.generate import Draft

_NUMBERS: Final = (
    *(
        "{n} // 2",
        "{n} // 3",
        "({n} + 1) // 2",
        "({n} + 3) // 4",
        "({n} + 2) // 3 * 2",
        "{n} - 1",
        "{n} % 3",
        "{n} % 4",
    ),
    *("-{n} % 2", "-{n} % 4", "-{n} % 3", "max({n} - 3, 0)", "min({n}, 3)", "min({n} // 2, 4)", "max({n} // 3, 1)"),
    *("{n} // 2 // 2", "({n} // 2 + 1) // 2", "abs({n} - 5)", "({n} * 3 + 1) // 4", "{n} * {n} % 5", "{n} - {n} // 3"),
    *("int({n} * 0.5)", "int({n} * 0.7)", "min({n}, {m})", "max({n}, {m}) // 2", "abs({n} - {m})", "({n} + {m}) // 3"),
    *("({n} + {m}) % 4", "{n} * {m} // 4", "max({n} - {m}, 0)", "min({n} - 1, {m})", "({n} - 1) // {m}"),
)
"""Numbers made of a size {n}, and of another {m}; 0 or more."""
_ALONG: Final = (
    *("{0}.narrow({d}, 0, {t} + 1)", "{0}.narrow({d}, {t}, {n} - ({t}))", "{0}.narrow({d}, {n} - ({t}), {t})"),
    *("{0}.roll({t}, {d})", "{0}.roll(-({t}), {d})", "torch.diff({0}, dim={d})", "torch.diff({0}, n=2, dim={d})"),
    *("{0}.cumsum({d})", "{0}.unfold({d}, 2, 1)", "{0}.unfold({d}, 3, 2)", "{0}.unfold({d}, 4, 3)", "{0}.flip({d})"),
    *("torch.cat([{0}.narrow({d}, 0, {t}), {0}], {d})", "torch.cat([{0}, {0}.flip({d}), {0}], {d})"),
    *("torch.cat([{0}.chunk(2, {d})[-1], {0}.chunk(3, {d})[0]], {d})", "{0}.chunk(2, {d})[1]", "{0}.chunk(3, {d})[-1]"),
    *("{0}.split(2, {d})[0]", "{0}.split([{t}, {n} - ({t})], {d})[1]", "{0}.split([{t}, {n} - ({t})], {d})[0]"),
    *("{0}.tensor_split(2, {d})[1]", "{0}.tensor_split(3, {d})[0]", "{0}.repeat_interleave(2, {d})"),
    *(
        "{0}.repeat_interleave(3, {d}).narrow({d}, 0, {n})",
        "{0}.topk({t} + 1, {d}).values",
        "{0}.topk({t}, {d}).values",
    ),
    *(
        "{0}.kthvalue({t} + 1, {d}).values",
        "{0}.select({d}, {t})",
        "{0}.select({d}, -1 - ({t}))",
        "{0}.cummax({d}).values",
    ),
    *("{0}.sum({d}) / ({t} + 1)", "{0} * ({t})", "{0} + ({t}) / {n}", "{0} / {n} ** 0.5", "{0}.mean({d}) * {n}"),
    *("{0}.index_select({d}, torch.arange({t}, {n}))", "{0}.index_select({d}, torch.arange(0, {n}, 2))"),
    *("{0}.index_select({d}, torch.arange({n} - 1, -1, -2))", "{0}.index_select({d}, torch.arange({n}) * 3 % {n})"),
    *("{0}.index_select({d}, torch.arange({n}).roll({t}))", "{0}.index_select({d}, (torch.arange({n}) + {t}) % {n})"),
    *("{0}.gather({d}, torch.zeros_like({0}, dtype=torch.long) + ({n} - 1))", "{0}.std({d})", "{0}.var({d})"),
    *(
        "{0}.masked_fill({0} > 1, 0.0).cumsum({d})",
        "{0}.sort({d}).values.narrow({d}, {t}, 1)",
        "{0}.median({d}).values",
    ),
    *("torch.logsumexp({0}, {d}) - torch.tensor(1.0 + {n}).log()", "{0}.movedim({d}, 0)", "{0}.transpose({d}, -1)"),
    *("{0}.amax({d}, keepdim=True).expand_as({0})", "torch.stack([{0}, {0}.roll(1, {d})], {d})", "{0}.softmax({d})"),
    *("torch.stack([{0}, -{0}], {d}).transpose(0, 1)", "{0}.unsqueeze({d}).repeat_interleave(2, {d})"),
)
_LAST: Final = (
    *(
        "{0}[..., ::2]",
        "{0}[..., 1::2]",
        "{0}[..., ::3]",
        "{0}[..., {t} :]",
        "{0}[..., : {t} + 1]",
        "{0}[..., {t} :: 2]",
    ),
    *("{0}[..., -3:]", "{0}[..., :3]", "{0}[..., 1:-1]", "{0}[..., -({t}) - 1 :]", "{0}[..., : -1 - ({t})]"),
    *(
        "F.pad({0}, (0, {t}))",
        "F.pad({0}, ({t}, 0), value=1.5)",
        "F.pad({0}, ({t}, 1))",
        "F.pad({0}, (0, 8 - {n} % 8))",
    ),
    *(
        "F.pad({0}, (0, -{n} % 4)).unflatten(-1, (-1, 4)).sum(-1)",
        "F.pad({0}, (0, -{n} % 4)).unflatten(-1, (4, -1)).mT",
    ),
    *("F.pad({0}, (0, -{n} % 3)).unflatten(-1, (-1, 3)).softmax(-1).flatten(-2)[..., : {n}]", "F.pad({0}, (1, -1))"),
    *("F.pad({0}, (0, {n}))", "F.pad({0}, (1, {t} + 1), mode='replicate')", "{0}.repeat(*[1] * ({0}.ndim - 1), 2)"),
    *("{0} * torch.arange({n})", "{0} + torch.linspace(0, 1, {n})", "{0} + torch.linspace(-1, 1, {n}).flip(0)"),
    *("{0} * (torch.arange({n}) < {t} + 1)", "{0} + (torch.arange({n}) - {t}).abs()", "{0} * (torch.arange({n}) % 2)"),
    *(
        "{0}.masked_fill(torch.arange({n}) >= {t}, -1.0)",
        "{0} * torch.ones({n}).cumsum(0)",
        "{0} + torch.ones({t} + 1).sum()",
    ),
    *("{0}[..., None] * {0}[..., None, :]", "({0}[..., None] - {0}[..., None, :]).abs()", "{0} @ torch.eye({n})"),
    *(
        "{0} @ torch.ones({n}, {t} + 1)",
        "{0} @ torch.tril(torch.ones({n}, {n}))",
        "{0} @ torch.triu(torch.ones({n}, {n}), 1)",
    ),
    *(
        "torch.diag_embed({0}).sum(-1)",
        "torch.diag_embed({0})[..., 0]",
        "{0}.reshape({0}.shape[0], -1)",
        "{0}.flatten()",
    ),
    *("{0}.reshape(-1, {n})", "{0}.reshape({n}, -1)", "torch.cat([{0}[..., ::2], {0}[..., 1::2]], -1)", "{0}.mT"),
    *(
        "torch.cat([{0}[..., 1:], {0}[..., :1]], -1)",
        "torch.where(torch.arange({n}) > {t}, {0}, -{0})",
        "{0}.flatten(-2)",
    ),
    *("F.avg_pool1d({0}.reshape(1, -1, {n}), 3, 2, 1)", "F.max_pool1d({0}.reshape(1, -1, {n}), 2, 2, ceil_mode=True)"),
    *("F.adaptive_avg_pool1d({0}.reshape(1, -1, {n}), 3)", "F.adaptive_avg_pool1d({0}.reshape(1, -1, {n}), {t} + 1)"),
    *("F.adaptive_max_pool1d({0}.reshape(1, -1, {n}), 2)", "F.interpolate({0}.reshape(1, -1, {n}), scale_factor=0.7)"),
    *("F.interpolate({0}.reshape(1, -1, {n}), size={t} + 1, mode='linear')", "F.unfold({0}.reshape(1, 1, -1, {n}), 2)"),
)
_SEQUENCE: Final = (
    *("torch.cdist({0}, {0})", "torch.cdist({0}, {0}[..., ::2, :])", "torch.cdist({0}, {0}, 1.0)", "{0} @ {0}.mT"),
    *("F.scaled_dot_product_attention({0}, {0}, {0}, is_causal=True)", "({0} @ {0}.mT).softmax(-1) @ {0}"),
    *("F.scaled_dot_product_attention({0}, {0}[..., : {t} + 1, :], {0}[..., : {t} + 1, :])",),
    *("F.scaled_dot_product_attention({0}[..., -1:, :], {0}, {0})", "torch.tril({0} @ {0}.mT)[..., -1, :]"),
    *("F.scaled_dot_product_attention({0}, {0}, {0}, torch.ones({n}, {n}).tril({t}).bool())",),
    *("({0} @ {0}.mT).masked_fill(torch.ones({n}, {n}).triu(1).bool(), -1e4).softmax(-1) @ {0}",),
    *("({0} @ {0}.mT - (torch.arange({n})[:, None] - torch.arange({n})).abs() / 4).softmax(-1) @ {0}",),
    *("{0} + torch.sin(torch.arange({n})[:, None] / 3)", "{0}[..., ::2, :] + {0}[..., : ({n} + 1) // 2, :]"),
    *(
        "torch.cat([{0}, {1}], -2)",
        "torch.cat([{0}[..., :1, :], {1}], -2)",
        "{0} @ {1}.mT",
        "({0} @ {1}.mT).softmax(-1) @ {1}",
    ),
    *(
        "F.scaled_dot_product_attention({0}, {1}, {1})",
        "torch.cdist({0}, {1})",
        "F.cosine_similarity({0}, {0}.flip(-2), -1)",
    ),
    *("F.pad({0}, (0, 0, 0, -{n} % 4)).unflatten(-2, (-1, 4)).softmax(-2).flatten(-3, -2)[..., : {n}, :]",),
    *(
        "torch.cat([{0}[..., ::2, :], {0}[..., 1::2, :]], -2)",
        "F.pad({0}, (0, 0, {t}, 0))",
        "F.pad({0}, (0, 0, 1, 1))[..., 2:, :]",
    ),
    *(
        "{0}[..., torch.arange({n}) // 2, :]",
        "{0}[..., ({n} - 1) // 2, :]",
        "{0}[..., (torch.arange({n}) * 2).clamp(max={n} - 1), :]",
    ),
    *(
        "torch.einsum('...ik,...jk->...ij', {0}, {0}).amax(-1)",
        "{0}.mT @ {0} / {n}",
        "torch.tril({0} @ {0}.mT, -1).sum(-1)",
    ),
    *(
        "({0} @ {0}.mT).diagonal(dim1=-2, dim2=-1)",
        "({0} - {0}.mean(-2, keepdim=True)) / ({0}.std(-2, keepdim=True) + 1)",
    ),
)
_IMAGE: Final = (
    *("F.max_pool2d({0}, 2, ceil_mode=True)", "F.max_pool2d({0}, 3, 2, 1)", "F.avg_pool2d({0}, 2, ceil_mode=True)"),
    *(
        "F.avg_pool2d({0}, 3, 2, 1, ceil_mode=True)",
        "F.max_pool2d({0}, 3, 2, ceil_mode=True)",
        "F.adaptive_avg_pool2d({0}, (2, 3))",
    ),
    *("F.adaptive_avg_pool2d({0}, (None, 1))", "F.adaptive_max_pool2d({0}, 2)", "F.interpolate({0}, scale_factor=0.7)"),
    *("F.interpolate({0}, scale_factor=0.7, mode='bilinear')", "F.interpolate({0}, scale_factor=1.5, mode='bilinear')"),
    *(
        "F.interpolate({0}, scale_factor=2, mode='bilinear', align_corners=True)",
        "F.interpolate({0}, scale_factor=0.5)",
    ),
    *("F.interpolate({0}, size=(4, 5), mode='bilinear')", "F.interpolate({0}, scale_factor=2, mode='bicubic')"),
    *("F.interpolate({0}, scale_factor=(0.6, 1.7))", "F.interpolate(F.max_pool2d({0}, 2), size={0}.shape[-2:])"),
    *(
        "F.interpolate({0}[..., ::2, ::2], size={0}.shape[-2:], mode='bilinear')",
        "F.unfold({0}, 2)",
        "F.unfold({0}, 3, padding=1)",
    ),
    *(
        "F.unfold({0}, 2, stride=2)",
        "F.pad({0}, (0, -{n} % 4, 0, -{m} % 4))",
        "F.pad({0}, (1, 0, 0, 1), mode='reflect')",
    ),
    *(
        "F.pixel_unshuffle(F.pad({0}, (0, -{n} % 2, 0, -{m} % 2)), 2)",
        "{0}[..., ::2, 1::2]",
        "{0}[..., {m} // 2 :, {n} // 2 :]",
    ),
    *(
        "torch.cat([{0}, F.interpolate(F.avg_pool2d({0}, 2, ceil_mode=True), size={0}.shape[-2:])], 1)",
        "{0}.flatten(2).mT",
    ),
    *("{0} + torch.linspace(-1, 1, {m})[:, None] * torch.linspace(-1, 1, {n})", "{0}.roll((1, {n} // 2), (-2, -1))"),
    *("{0} + torch.stack(torch.meshgrid(torch.arange({m}), torch.arange({n}), indexing='ij')).sum(0) / {n}",),
    *(
        "{0}.mean((-2, -1)) * ({n} * {m})",
        "{0}.flatten(-2)[..., : ({n} * {m}) // 2]",
        "{0}.reshape({0}.shape[0], -1, {m} * {n})",
    ),
    *("F.pad({0}, (0, -{n} % 2, 0, -{m} % 2)).unflatten(-1, (-1, 2)).unflatten(-3, (-1, 2)).mT.mean((-2, -1))",),
)


def _number(d: Draft, x: str, axis: int) -> str:
    other, _, place = d.choose(*((name, 0, at) for name in d.values for at in range(d.rank(name))))
    size = f"{x}.shape[{axis}]"
    return str(d.choose(*_NUMBERS)).format(n=size, m=d.choose(size, f"{other}.shape[{place}]"))


def _along(d: Draft) -> str:
    x = d.pick(1)
    axis = d.axis(x)
    return str(d.choose(*_ALONG)).format(x, d=axis, n=f"{x}.shape[{axis}]", t=_number(d, x, axis))


def _last(d: Draft) -> str:
    x = d.pick(1)
    return str(d.choose(*_LAST)).format(x, n=f"{x}.shape[-1]", t=_number(d, x, -1))


def _sequence(d: Draft) -> str:
    x = d.pick(2)
    return str(d.choose(*_SEQUENCE)).format(x, d.pick(2), n=f"{x}.shape[-2]", t=_number(d, x, -2))


def _image(d: Draft) -> str:
    x = d.pick(4)
    return str(d.choose(*_IMAGE)).format(x, n=f"{x}.shape[-1]", m=f"{x}.shape[-2]")


def _table(d: Draft) -> str:
    """Learned rows, as many as there are places, from either end or resized."""
    x = d.pick(2)
    table = d.member(f"nn.Embedding(64, {d.size(x, -1)})") + ".weight"
    rows = d.choose(
        "{0}[: {n}]", "{0}[64 - {n} :]", "{0}[{t} : {t} + {n}]", "{0}[torch.arange({n}) + {t}]", "{0}[:: 2][: {n}]",
        "F.interpolate({0}[:7].mT[None], size={n}, mode='linear')[0].mT",
    )  # fmt: skip
    return f"{x} + {rows.format(table, n=f'{x}.shape[-2]', t=_number(d, x, -2))}"


def _mask_of_lengths(d: Draft) -> str:
    x = d.pick(2)
    return f"{x} * (torch.arange({x}.shape[-2]) < {_number(d, x, -2)})[:, None]"


SIZE_TEMPLATES: Final[tuple[tuple[Template, int], ...]] = (
    (_along, 60),
    (_last, 60),
    (_sequence, 30),
    (_image, 40),
    (_table, 8),
    (_mask_of_lengths, 4),
    *((template, 1 + weight // 4) for template, weight in TEMPLATES),
)
"""Each with how often it is tried; the lines of all modules among them."""
