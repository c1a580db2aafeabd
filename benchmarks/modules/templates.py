"""Lists the lines that random modules are made of.

A template takes a `Draft` and returns an expression; where none fits it raises, or torch does when it is run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from benchmarks.modules.generate import Draft

Template = Callable[[Draft], str]

_UNARY: Final = (
    *("F.relu({0})", "F.gelu({0})", "F.gelu({0}, approximate='tanh')", "F.silu({0})", "torch.tanh({0})"),
    *("torch.sigmoid({0})", "torch.exp({0}.clamp(max=4))", "torch.log({0}.abs() + 0.1)", "torch.sqrt({0}.abs())"),
    *("-{0}", "{0}.abs()", "torch.floor({0})", "torch.round({0})", "torch.ceil({0} * 3)", "torch.sin({0})"),
    *(
        "torch.cos({0})",
        "torch.erf({0})",
        "F.softplus({0})",
        "F.elu({0})",
        "F.leaky_relu({0}, 0.2)",
        "F.hardswish({0})",
    ),
    *(
        "F.hardsigmoid({0})",
        "F.relu6({0} * 4)",
        "{0}.clamp(-0.5, 0.7)",
        "F.mish({0})",
        "F.selu({0})",
        "F.celu({0}, 0.5)",
    ),
    *("torch.log1p({0}.abs())", "torch.rsqrt({0}.abs() + 1)", "torch.square({0})", "1 / ({0}.abs() + 1)", "{0}.sign()"),
    *("torch.trunc({0} * 2)", "torch.frac({0})", "torch.expm1({0}.clamp(max=3))", "torch.atan({0})", "{0} ** 2"),
    *(
        "{0} * 0.5 + 1",
        "{0} - 0.25",
        "3 - {0}",
        "{0} / 7",
        "F.logsigmoid({0})",
        "F.tanhshrink({0})",
        "F.hardshrink({0})",
    ),
    *("F.softshrink({0})", "F.threshold({0}, 0.1, -1.0)", "torch.remainder({0}, 0.7)", "torch.fmod({0}, 0.7)"),
    *("torch.nan_to_num({0})", "{0}.float()", "torch.sinh({0}.clamp(-3, 3))", "{0}.masked_fill({0} > 0.5, 0.0)"),
    *(
        "F.hardtanh({0})",
        "F.rrelu({0})",
        "{0} * {0}",
        "torch.asinh({0})",
        "torch.log2({0}.abs() + 1)",
        "torch.exp2({0}.clamp(max=4))",
    ),
)
_BINARY: Final = (
    *("{0} + {1}", "{0} - {1}", "{0} * {1}", "torch.maximum({0}, {1})", "torch.minimum({0}, {1})"),
    *("{0} / ({1}.abs() + 1)", "torch.where({0} > {1}, {0}, {1} * 2)", "torch.atan2({0}, {1})", "({0} - {1}).abs()"),
    *(
        "torch.lerp({0}, {1}, 0.3)",
        "torch.add({0}, {1}, alpha=0.5)",
        "torch.hypot({0}, {1})",
        "torch.pow({0}.abs() + 0.1, {1}.clamp(-2, 2))",
    ),
    *("torch.logaddexp({0}, {1})", "torch.addcmul({0}, {1}, {1}, value=0.5)", "torch.copysign({0}, {1})"),
)
_COMPARE: Final = ("{0} > {1}", "{0} < 0", "{0} >= {1}", "({0} > 0) & ({1} < 0)", "({0} > 0) | ({1} > 0)", "{0} != {1}")
_REDUCE: Final = (
    *(
        "{0}.sum({d}, keepdim={k})",
        "{0}.mean({d}, keepdim={k})",
        "{0}.amax({d}, keepdim={k})",
        "{0}.amin({d}, keepdim={k})",
    ),
    *(
        "{0}.var({d}, keepdim={k}, unbiased=False)",
        "{0}.std({d}, keepdim={k}, unbiased=False)",
        "{0}.argmax({d}, keepdim={k})",
    ),
    *("{0}.argmin({d}, keepdim={k})", "torch.logsumexp({0}, {d}, keepdim={k})", "{0}.norm(dim={d}, keepdim={k})"),
    *("({0} > 0).any({d}, keepdim={k})", "({0} > -1).all({d}, keepdim={k})", "{0}.max({d}, keepdim={k}).values"),
    *("{0}.min({d}, keepdim={k}).indices", "{0}.median({d}, keepdim={k}).values", "({0} > 0).sum({d}, keepdim={k})"),
    *(
        "torch.linalg.vector_norm({0}, 1, dim={d}, keepdim={k})",
        "{0}.prod({d}, keepdim={k})",
        "{0}.kthvalue(1, {d}, keepdim={k}).values",
    ),
)
_ALONG: Final = (
    *("torch.softmax({0}, {d})", "torch.log_softmax({0}, {d})", "{0}.cumsum({d})", "{0}.flip({d})", "{0}.roll(1, {d})"),
    *(
        "{0}.sort({d}).values",
        "{0}.sort({d}, descending=True).values",
        "{0}.argsort({d}, stable=True)",
        "{0}.cummax({d}).values",
    ),
    *(
        "{0} - {0}.mean({d}, keepdim=True)",
        "F.normalize({0}, dim={d})",
        "{0} / ({0}.amax({d}, keepdim=True).abs() + 1)",
    ),
    *(
        "{0}.roll(-2, {d})",
        "torch.cumprod({0}.clamp(-1, 1), {d})",
        "F.glu(torch.cat([{0}, {0}], {d}), {d})",
        "{0}.sort({d}, stable=True).indices",
    ),
    *(
        "torch.cat([{0}, {0}.flip({d})], {d})",
        "torch.stack([{0}, {0} * 2], {d})",
        "{0}.unsqueeze({d})",
        "{0}.topk({t}, {d}).values",
    ),
    *(
        "{0}.narrow({d}, 0, {t})",
        "{0}.select({d}, 0)",
        "{0}.select({d}, -1)",
        "{0}.repeat_interleave(2, {d})",
        "{0}.topk({t}, {d}, largest=False).values",
    ),
    *(
        "{0}.chunk(2, {d})[0]",
        "{0}.split({t}, {d})[0]",
        "torch.diff({0}, dim={d})",
        "{0}.unfold({d}, {t}, 1)",
        "torch.cat([{0}.narrow({d}, 0, 1), {0}], {d})",
    ),
    *(
        "{0}.transpose({d}, 0)",
        "{0}.transpose({d}, -1)",
        "{0}.movedim({d}, 0)",
        "{0} + torch.arange({0}.shape[{d}]).sum()",
    ),
    *(
        "{0} / {0}.shape[{d}]",
        "{0}.sum({d}) / ({0}.shape[{d}] + 1)",
        "{0}.narrow({d}, 0, {0}.shape[{d}] // 2 + 1)",
        "{0}.sum({d}, keepdim=True).expand_as({0})",
    ),
    *(
        "{0}.index_select({d}, torch.arange({0}.shape[{d}] - 1, -1, -1))",
        "torch.logcumsumexp({0}, {d})",
        "{0}.narrow({d}, {0}.shape[{d}] - 1, 1)",
    ),
)
_SHAPE: Final = (
    *(
        "{0}.flatten()",
        "{0}.reshape({0}.shape[0], -1)",
        "{0}.reshape(-1, {0}.shape[-1])",
        "{0}.flatten(0, 1)",
        "{0}.flatten(-2)",
    ),
    *(
        "{0}[1:]",
        "{0}[:-1]",
        "{0}[..., ::2]",
        "{0}[..., 1:]",
        "{0}[:, :1]",
        "{0}[:, -1]",
        "{0}[..., None]",
        "{0}[None]",
    ),
    *(
        "{0}.mT",
        "torch.tril({0})",
        "torch.triu({0}, 1)",
        "{0}.squeeze()",
        "{0}.repeat(2, *[1] * ({0}.ndim - 1))",
        "{0}.diagonal(dim1=-2, dim2=-1)",
    ),
    *(
        "F.pad({0}, (1, 2))",
        "F.pad({0}, (1, 0), value=2.0)",
        "F.pad({0}, (1, 1, 0, 1))",
        "F.pad({0}, (0, -1))",
        "F.pad({0}, (1, 1), mode='reflect')",
    ),
    *(
        "F.pad({0}, (2, 1), mode='replicate')",
        "F.pad({0}, (1, 1), mode='circular')",
        "{0}.expand(2, *{0}.shape)",
        "{0}.contiguous()",
    ),
    *(
        "{0}.new_zeros({0}.shape) + 1",
        "torch.ones_like({0}) * {0}",
        "{0} + torch.arange({0}.shape[-1])",
        "{0} * torch.linspace(0, 1, 4)[1]",
    ),
    *(
        "{0}.view({0}.shape[0], {0}.shape[1], -1)",
        "{0}.reshape({0}.shape[0] * {0}.shape[1], -1)",
        "{0}[..., : {0}.shape[-1] // 2]",
        "{0}[{0}.shape[0] // 2 :]",
    ),
    *(
        "{0}[:: 3]",
        "{0}.mean()",
        "{0}.sum()",
        "{0}.amax()",
        "{0}.permute(*range({0}.ndim - 1, -1, -1))",
        "{0}.var(unbiased=False)",
    ),
    *(
        "{0}[torch.arange({0}.shape[0]) % 2]",
        "{0}.masked_fill(torch.arange({0}.shape[-1]) > 2, -1.0)",
        "{0}.unflatten(-1, (2, -1))",
        "{0}.std((-2, -1), unbiased=False)",
    ),
    *(
        "{0}.mean((-2, -1), keepdim=True)",
        "torch.cat([{0}[:1], {0}, {0}[-1:]])",
        "{0}[..., {0}.shape[-1] - 1 :]",
        "torch.meshgrid({0}, {0}, indexing='ij')[0]",
    ),
    *(
        "torch.outer({0}, {0})",
        "torch.cartesian_prod({0}, {0})[:, 0]",
        "{0}.as_strided({0}.shape, {0}.stride())",
        "torch.atleast_2d({0})",
        "torch.cov({0}.abs())[0]",
    ),
)
_PRODUCT: Final = (
    *("{0} @ {0}.mT", "{0}.mT @ {0}", "{0} @ {1}", "{0} @ {1}.mT", "torch.einsum('...ij,...kj->...ik', {0}, {0})"),
    *("F.scaled_dot_product_attention({0}, {0}, {0})", "F.scaled_dot_product_attention({0}, {0}, {0}, is_causal=True)"),
    *(
        "torch.softmax({0} @ {0}.mT / 2, -1) @ {0}",
        "torch.cdist({0}, {0})",
        "F.cosine_similarity({0}, {1}, dim=-1)",
        "torch.bmm({0}, {1}.mT)",
    ),
    *(
        "torch.einsum('...i,...j->...ij', {0}, {0})",
        "F.softmax({0}, -1).mT @ {0}",
        "F.scaled_dot_product_attention({0}, {1}, {1})",
    ),
)


def _of(patterns: tuple[str, ...], fewest: int = 0) -> Template:
    """Return the template that fills a pattern with floats: {0} one value, {1} another, {d} a dimension."""

    def template(d: Draft) -> str:
        pattern = d.choose(*patterns)
        first = d.pick(fewest)
        second = d.pick(fewest) if "{1}" in pattern else ""
        axis = d.axis(first) if "{d}" in pattern else 0
        count = d.rng.randint(1, min(4, d.least(first, axis))) if "{t}" in pattern else 0
        result: str = pattern.format(first, second, d=axis, k=d.choose(True, False), t=count)
        return result

    return template


def _binary_of_one_shape(d: Draft) -> str:
    first = d.pick()
    alike = [
        name
        for name, at in d.values.items()
        if at[0].is_floating_point() and [e.shape for e in at] == [e.shape for e in d.values[first]]
    ]
    result: str = d.choose(*_BINARY).format(first, d.choose(*alike))
    return result


def _where(d: Draft) -> str:
    return f"torch.where({d.pick(kind='bool')}, {d.pick()}, {d.choose('0.0', '-1.5', d.pick())})"


def _of_bool(d: Draft) -> str:
    result: str = d.choose(
        "{0}.float()", "~{0}", "{0}.long()", "{0}.sum()", "{0}.float().mean(-1)", "{0}.any()", "{0}.cumsum(-1)"
    )
    return result.format(d.pick(kind="bool"))


def _of_ids(d: Draft) -> str:
    x = d.pick(kind="ids")
    options = (
        "{0}.float()",
        "{0} + 1",
        "{0} * 2 - 3",
        "{0} % 3",
        "{0} // 2",
        "{0} == 2",
        "{0}.clamp(0, 3)",
        "{0}.sum(-1)",
        "{0} > 1",
    )
    result: str = d.choose(
        *options,
        "F.one_hot({0}.clamp(0, 7), 8).float()",
        "{0}.amax(-1)",
        "{0}.flip(0)",
        "{0}.cumsum(0)",
        "{0}.sort(-1).values",
    )
    return result.format(x)


def _embedding(d: Draft) -> str:
    x = d.pick(1, 3, kind="ids")
    return f"{d.member(f'nn.Embedding(8, {d.choose(3, 4, 8)})')}({x}.clamp(0, 7))"


def _take(d: Draft) -> str:
    x, ids = d.pick(1), d.pick(1, 2, kind="ids")
    return f"{x}[{ids}.clamp(0, {d.least(x, 0) - 1})]"


def _gather(d: Draft) -> str:
    x = d.pick(1)
    axis = d.axis(x)
    return f"{x}.gather({axis}, ({x} > 0).long().clamp(max={d.least(x, axis) - 1}))"


def _scatter(d: Draft) -> str:
    x = d.pick(1)
    axis = d.axis(x)
    how = d.choose("scatter_add", "scatter")
    return (
        f"torch.zeros_like({x}).{how}({axis}, torch.zeros_like({x}, dtype=torch.long), {x})"
        if how == "scatter_add"
        else (f"{x}.scatter({axis}, {x}.argmax({axis}, keepdim=True), 9.0)")
    )


def _linear(d: Draft) -> str:
    x = d.pick(1)
    result = f"nn.Linear({d.size(x, -1)}, {d.choose(1, 3, 4, 8, 16, 17)}, bias={d.choose(True, True, False)})"
    return f"{d.member(result)}({x})"


def _norm(d: Draft) -> str:
    x = d.pick(2)
    width, channels = d.size(x, -1), d.rank(x) > 1 and not d.varies(x, 1) and d.size(x, 1)
    options = [f"nn.LayerNorm({width})", f"nn.RMSNorm({width}, eps=1e-5)"]
    if channels:
        options += [f"nn.GroupNorm({d.choose(1, channels)}, {channels})"]
        options += [f"nn.BatchNorm{max(1, min(3, d.rank(x) - 2))}d({channels})"] * 2
        options += [f"nn.InstanceNorm{max(1, min(3, d.rank(x) - 2))}d({channels}, affine=True)"]
    return f"{d.member(d.choose(*options))}({x})"


def _layer_norm_of_channels(d: Draft) -> str:
    x = d.pick(3, 4)
    groups = d.choose(*[g for g in (1, 2, 3, 4) if d.size(x, 1) % g == 0])
    return f"{d.member(f'nn.GroupNorm({groups}, {d.size(x, 1)})')}({x})"


def _conv(d: Draft) -> str:
    x = d.pick(3, 4)
    dims, channels = d.rank(x) - 2, d.size(x, 1)
    kernel, stride = d.choose(1, 2, 3, 3, 5), d.choose(1, 1, 2, 3)
    padding = d.choose(0, kernel // 2, 1, "'same'" if stride == 1 else 1)
    groups = d.choose(1, 1, channels, *[g for g in (2, 3) if channels % g == 0])
    out = groups * d.choose(1, 2, 3)
    dilation = d.choose(1, 1, 2)
    mode = d.choose("zeros", "zeros", "zeros", "reflect", "replicate", "circular")
    result = (
        f"nn.Conv{dims}d({channels}, {out}, {kernel}, {stride}, {padding}, {dilation}, {groups}, padding_mode='{mode}')"
    )
    return f"{d.member(result)}({x})"


def _conv_transpose(d: Draft) -> str:
    x = d.pick(3, 4)
    channels, stride = d.size(x, 1), d.choose(1, 2, 3)
    sizes = f"{channels}, {d.choose(1, 3, 4)}, {d.choose(2, 3)}, {stride}, output_padding={stride // 3}"
    result = f"nn.ConvTranspose{d.rank(x) - 2}d({sizes})"
    return f"{d.member(result)}({x})"


def _block(d: Draft) -> str:
    """A convolution, its norm and its activation, which fuse."""
    x = d.pick(4, 4)
    channels, out = d.size(x, 1), d.choose(4, 8, 16)
    after = d.choose("nn.ReLU()", "nn.ReLU6()", "nn.SiLU()", "nn.Hardswish()", "nn.GELU()", "nn.Identity()")
    conv = f"nn.Conv2d({channels}, {out}, 3, {d.choose(1, 2)}, 1, bias=False)"
    result = f"nn.Sequential({conv}, nn.BatchNorm2d({out}), {after})"
    return f"{d.member(result)}({x})"


def _pool(d: Draft) -> str:
    x = d.pick(3, 4)
    n = d.rank(x) - 2
    kernel = d.choose(2, 3)
    result: str = d.choose(
        f"F.max_pool{n}d({x}, {kernel})",
        f"F.max_pool{n}d({x}, {kernel}, 1, 1)",
        f"F.max_pool{n}d({x}, {kernel}, 2, ceil_mode=True)",
        f"F.avg_pool{n}d({x}, {kernel})",
        f"F.avg_pool{n}d({x}, {kernel}, 2, 1, count_include_pad=False)",
        f"F.avg_pool{n}d({x}, {kernel}, 2, ceil_mode=True)",
        f"F.adaptive_avg_pool{n}d({x}, 1)",
        f"F.adaptive_avg_pool{n}d({x}, 2)",
        f"F.adaptive_max_pool{n}d({x}, 1)",
    )
    return result


def _resize(d: Draft) -> str:
    x = d.pick(4, 4)
    mode = d.choose("nearest", "bilinear", "bicubic", "nearest-exact")
    align = f", align_corners={d.choose(True, False)}" if mode.startswith("b") else ""
    size = d.choose("scale_factor=2", "scale_factor=1.5", "size=(5, 7)", f"size=({x}.shape[2] * 2, {x}.shape[3] + 1)")
    return f"F.interpolate({x}, {size}, mode='{mode}'{align})"


def _recurrent(d: Draft) -> str:
    x = d.pick(3, 3)
    kind, both = d.choose("GRU", "LSTM", "RNN"), d.choose(True, False)
    result = f"nn.{kind}({d.size(x, -1)}, {d.choose(3, 4)}, batch_first={d.choose(True, False)}, bidirectional={both})"
    return f"{d.member(result)}({x})[0]"


def _attention(d: Draft) -> str:
    x = d.pick(3, 3)
    width = d.size(x, -1)
    heads = d.choose(*[h for h in (1, 2, 4) if width % h == 0])
    if d.choose(True, False):
        result = f"nn.MultiheadAttention({width}, {heads}, batch_first=True)"
        return f"{d.member(result)}({x}, {x}, {x}, need_weights=False)[0]"
    options = f"{width}, {heads}, {d.choose(8, 16)}, batch_first=True, norm_first={d.choose(True, False)}"
    result = f"nn.TransformerEncoderLayer({options})"
    return f"{d.member(result)}({x})"


def _heads(d: Draft) -> str:
    """Attention written out: heads split from the last dimension."""
    x = d.pick(3, 3)
    width = d.size(x, -1)
    heads = d.choose(*[h for h in (1, 2, 4) if width % h == 0])
    split = f"{x}.view({x}.shape[0], {x}.shape[1], {heads}, -1).transpose(1, 2)"
    return f"F.scaled_dot_product_attention({split}, {split}, {split}).transpose(1, 2).flatten(2)"


def _token(d: Draft) -> str:
    """A learned row before a sequence."""
    x = d.pick(3, 3)
    token = d.member(f"nn.ParameterList([nn.Parameter(torch.randn(1, 1, {d.size(x, -1)}))])")
    return f"torch.cat([{token}[0].expand({x}.shape[0], -1, -1), {x}], 1)"


def _shuffle(d: Draft) -> str:
    x = d.pick(4, 4)
    channels = d.size(x, 1)
    options = [f"F.pixel_unshuffle({x}, 2)"]
    if channels % 4 == 0:
        options.append(f"F.pixel_shuffle({x}, 2)")
    if channels % 2 == 0:
        options.append(f"F.channel_shuffle({x}, 2)")
    result: str = d.choose(*options)
    return result


def _windows(d: Draft) -> str:
    """A frame of each place and a transform of it."""
    x = d.pick(1, 3)
    result: str = d.choose(
        f"torch.fft.rfft({x}).abs()",
        f"torch.fft.fft({x}, dim={d.axis(x)}).real",
        f"torch.fft.irfft(torch.fft.rfft({x}, n=8), n=8)",
        f"torch.view_as_real(torch.fft.fft({x})).sum(-1)",
        f"torch.fft.ifft(torch.fft.fft({x}) * 2).imag + {x}",
        f"torch.stft({x}, 4, 2, window=torch.hann_window(4), return_complex=True).abs()",
    )
    return result


TEMPLATES: Final[tuple[tuple[Template, int], ...]] = (
    (_of(_UNARY), 14),
    (_of(_BINARY), 5),
    (_binary_of_one_shape, 8),
    (_of(_COMPARE), 3),
    (_of(_REDUCE, 1), 8),
    (_of(_ALONG, 1), 14),
    (_of(_SHAPE, 1), 14),
    (_of(_PRODUCT, 2), 6),
    (_where, 2),
    (_of_bool, 2),
    (_of_ids, 4),
    (_embedding, 4),
    (_take, 2),
    (_gather, 2),
    (_scatter, 2),
    (_linear, 8),
    (_norm, 5),
    (_layer_norm_of_channels, 2),
    (_conv, 8),
    (_conv_transpose, 3),
    (_block, 5),
    (_pool, 5),
    (_resize, 3),
    (_recurrent, 3),
    (_attention, 4),
    (_heads, 3),
    (_token, 3),
    (_shuffle, 2),
    (_windows, 2),
)
"""Each with how often it is tried."""
