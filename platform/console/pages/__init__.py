"""Has the pages, an area each: a module with its routes, and a folder of templates of the same name."""

__all__: list[str] = []
