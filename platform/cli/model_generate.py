"""`alcove model generate`: continues tokens with a language model."""

from pathlib import Path
from typing import Annotated

import typer
from alcove.platform.cli.output import AsJson, print_json, say_text

__all__ = ["generate"]


def generate(
    program: Annotated[Path, typer.Argument(help="Program file (.alc) of a language model.")],
    tokens: Annotated[str, typer.Option(help="The prompt: whole numbers, with commas between them.")],
    *,
    max_new_tokens: Annotated[int, typer.Option(help="Most tokens to generate.")] = 32,
    temperature: Annotated[float, typer.Option(help="0 takes the greatest logit.")] = 0.0,
    top_k: Annotated[int, typer.Option(help="Among the k greatest; 0 for all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Among the fewest with this probability together.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the random bits.")] = 0,
    stop: Annotated[list[int] | None, typer.Option(help="A token that ends it; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Continue tokens with a program that has the methods prefill and decode, or one for both."""
    from alcove.runtime import Sampling, load  # noqa: PLC0415 - numpy comes with it
    from alcove.runtime import generate as generate_tokens  # noqa: PLC0415

    try:
        prompt = [int(token) for token in tokens.split(",")]
    except ValueError:
        raise typer.BadParameter(f"tokens are whole numbers with commas between them, not {tokens!r}") from None
    sampling = Sampling(temperature, top_k, top_p, seed)
    found = list(generate_tokens(load(program), prompt, max_new_tokens, sampling=sampling, stop=set(stop or ())))
    if as_json:
        print_json({"tokens": found})
    else:
        say_text(",".join(map(str, found)))
