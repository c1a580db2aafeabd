"""Makes certified programs of trained models that teams bring: `alcove model import`."""

__all__: list[str] = []
