"""Makes certified programs of trained models that teams bring: `alcove model import`."""

from alcove.platform.cli.importing.architectures import options_of
from alcove.platform.cli.importing.backbone import Imported, Int8, import_backbone
from alcove.platform.cli.importing.pictures import Pictures, three_numbers

__all__ = ["Imported", "Int8", "Pictures", "import_backbone", "options_of", "three_numbers"]
