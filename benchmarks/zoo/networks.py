"""Lists the networks of the zoo, and builds them: timm's own definitions with random weights.

timm is no dependency of alcove.  It is looked for when a network is built.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import torch
from torch import nn

SEED: Final = 7


@dataclass(frozen=True)
class Network:
    """One network of the zoo.

    Attributes:
        name: as timm has it.
        family: what its layers are.
        size: height and width of the image, chosen so that a run takes some milliseconds.
        options: what timm is told beside the name.
    """

    name: str
    family: str
    size: int
    options: Mapping[str, int] = field(default_factory=dict)

    def build(self) -> nn.Module:
        """Return the network, the same weights each time.

        Raises:
            ModuleNotFoundError: timm is not there.
        """
        timm: Any = _import_timm()
        torch.manual_seed(SEED)
        module: nn.Module = timm.create_model(self.name, pretrained=False, **self.options).eval()
        module.requires_grad_(requires_grad=False)
        _roughen(module)
        return module

    def example(self) -> torch.Tensor:
        """Return the image that it is timed with, [1, 3, size, size]."""
        return torch.randn(1, 3, self.size, self.size, generator=torch.Generator().manual_seed(SEED))


def _import_timm() -> Any:
    """Return timm.

    It imports torchvision, whose wheel may be of another build than torch, for what it does to pictures; the operators
    that such a wheel only names must be there.
    """
    if find_spec("torchvision") is not None and not hasattr(torch.ops.torchvision, "nms"):
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float threshold) -> Tensor")
    return import_module("timm")


def _roughen(module: nn.Module) -> None:
    """Make numbers that begin all equal random: zeros and ones would hide what is left out or folded wrongly."""
    for parameter in module.parameters():
        if parameter.numel() > 1 and float(parameter.min()) == float(parameter.max()):
            if float(parameter.max()) == 0.0:
                parameter.normal_(0.0, 0.02)
            else:
                parameter.mul_(torch.empty_like(parameter).uniform_(0.5, 1.5))
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d | nn.BatchNorm1d) and part.running_mean is not None:
            part.running_mean.normal_(0.0, 0.1)
            if part.running_var is not None:
                part.running_var.uniform_(0.5, 1.5)


def _family(name: str, size: int, names: str, **options: int) -> list[Network]:
    """Return networks of one family; `name@96` has another size than the rest."""
    found = []
    for word in names.split():
        plain, _, own = word.partition("@")
        found.append(Network(plain, name, int(own or size), options))
    return found


NETWORKS: Final = (
    *_family(
        "mobile",
        224,
        """mobilenetv2_050 mobilenetv2_100 mobilenetv3_small_100 mobilenetv3_large_100 mobilenetv4_conv_small
        mobilenetv4_conv_medium mnasnet_small mnasnet_100 semnasnet_100 fbnetc_100 fbnetv3_b spnasnet_100 mixnet_s
        lcnet_050 lcnet_100 tinynet_a tinynet_e ghostnet_100 ghostnetv2_100 hardcorenas_a tf_efficientnet_lite0
        efficientnet_b0 efficientnet_es tf_efficientnetv2_b0 rexnet_100 mobileone_s0 mobileone_s1 repghostnet_100
        starnet_s1 repvit_m0_9""",
    ),
    *_family(
        "residual",
        160,
        """resnet10t resnet18 resnet26 resnet50 resnext50_32x4d resnetv2_50 seresnext26t_32x4d skresnet18
        res2net50_26w_4s ecaresnet26t gcresnet33ts resnest14d regnetx_002@224 regnety_002@224 regnety_008 dla46_c@224
        repvgg_a0 hgnetv2_b0@224""",
    ),
    *_family(
        "dense",
        160,
        """densenet121 ese_vovnet19b_dw ese_vovnet39b selecsls42b dpn48b xception41 legacy_xception cspresnet50
        hrnet_w18_small inception_v3 nf_regnet_b0""",
    ),
    *_family(
        "convnext",
        224,
        """convnext_atto convnextv2_atto convnext_femto inception_next_atto focalnet_tiny_srf@160 poolformer_s12@160
        poolformerv2_s12@160 convformer_s18@128 mambaout_femto edgenext_xx_small rdnet_tiny@128 fasternet_t0""",
    ),
    *_family(
        "transformer",
        224,
        """vit_tiny_patch16_224 vit_small_patch32_224 deit_tiny_patch16_224 deit_tiny_distilled_patch16_224
        vit_relpos_small_patch16_224 eva02_tiny_patch14_224 cait_xxs24_224 xcit_nano_12_p16_224 crossvit_tiny_240@240
        pit_ti_224 convit_tiny volo_d1_224 tnt_s_legacy_patch16_224 sequencer2d_s""",
    ),
    *_family(
        "windows",
        224,
        """swin_tiny_patch4_window7_224 swin_s3_tiny_224 swinv2_tiny_window8_256@256 twins_svt_small twins_pcpvt_small
        gcvit_xxtiny davit_tiny maxvit_rmlp_pico_rw_256@256 maxvit_tiny_rw_224 nest_tiny mvitv2_tiny hiera_tiny_224""",
    ),
    *_family(
        "hybrid",
        224,
        """levit_128s levit_conv_128s mobilevit_xxs@256 mobilevit_s@160 mobilevitv2_050@256 coat_lite_tiny
        coatnet_nano_rw_224 pvt_v2_b0 tiny_vit_5m_224 visformer_tiny efficientformer_l1 efficientformerv2_s0
        efficientvit_m0 efficientvit_b0 fastvit_t8@256 fastvit_sa12@160 nextvit_small@160 swiftformer_xs shvit_s1
        mobilenetv4_hybrid_medium@192 botnet26t_256@256 halonet26t@256 lambda_resnet26t@128 caformer_s18@128""",
    ),
    *_family("mlp", 224, "mixer_s32_224 mixer_s16_224 gmixer_24_224 gmlp_ti16_224 gmlp_s16_224 resmlp_12_224"),
)
"""All of them: small members of each family, as a phone would have them."""

BY_NAME: Final = {network.name: network for network in NETWORKS}
FAMILIES: Final = tuple(dict.fromkeys(network.family for network in NETWORKS))
