"""`alcove model generate`: continues tokens or a text with a language model."""

from pathlib import Path
from typing import Annotated

import typer
from alcove.platform.cli.output import AsJson, print_json, say_text

__all__ = ["generate"]


def generate(
    program: Annotated[Path, typer.Argument(help="Program file (.alc) of a language model.")],
    tokens: Annotated[str | None, typer.Option(help="The prompt: whole numbers, with commas between them.")] = None,
    *,
    text: Annotated[str | None, typer.Option(help="The prompt, for a program that holds its tokenizer.")] = None,
    max_new_tokens: Annotated[int, typer.Option(help="Most tokens to generate.")] = 32,
    temperature: Annotated[float, typer.Option(help="0 takes the greatest logit.")] = 0.0,
    top_k: Annotated[int, typer.Option(help="Among the k greatest; 0 for all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Among the fewest with this probability together.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the random bits.")] = 0,
    stop: Annotated[list[int] | None, typer.Option(help="A token that ends it; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Continue tokens, or a text, with a program that has the methods prefill and decode, or one for both."""
    from alcove.runtime import Sampling, generate_text, load  # noqa: PLC0415 - numpy comes with it
    from alcove.runtime import generate as generate_tokens  # noqa: PLC0415

    if (tokens is None) == (text is None):
        raise typer.BadParameter("give the prompt either as --tokens or as --text")
    sampling = Sampling(temperature, top_k, top_p, seed)
    if text is not None:
        pieces = generate_text(load(program), text, max_new_tokens, sampling=sampling, stop=set(stop or ()))
        written = "".join(pieces)
        print_json({"text": written}) if as_json else say_text(written)
        return
    try:
        prompt = [int(token) for token in (tokens or "").split(",")]
    except ValueError:
        raise typer.BadParameter(f"tokens are whole numbers with commas between them, not {tokens!r}") from None
    found = list(generate_tokens(load(program), prompt, max_new_tokens, sampling=sampling, stop=set(stop or ())))
    if as_json:
        print_json({"tokens": found})
    else:
        say_text(",".join(map(str, found)))
