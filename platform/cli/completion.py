"""`alcove completion`: prints a script that completes commands and options in a shell without starting Python."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer
from alcove.platform.cli.output import say_text

__all__ = ["completion", "make_script", "words_by_command"]

Shell = Literal["bash", "zsh", "fish"]


def completion(
    *, shell: Annotated[Shell, typer.Argument(help="The shell that reads the script: bash, zsh or fish.")]
) -> None:
    """Print a script that completes commands and options; a new version of alcove needs a new one.

    bash: alcove completion bash > ~/.local/share/bash-completion/completions/alcove
    zsh: alcove completion zsh > ~/.zfunc/_alcove, with that folder in fpath
    fish: alcove completion fish > ~/.config/fish/completions/alcove.fish
    """
    from alcove.platform.cli.main import app_of  # noqa: PLC0415 - it loads every command

    say_text(make_script(shell, words_by_command(typer.main.get_command(app_of(None)))))


def words_by_command(command: Any) -> dict[str, list[str]]:
    """Return what may follow each command, by its path ("model alias"; "" is alcove itself): commands, or options."""
    return dict(_walk(command, ""))


def _walk(command: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    options = [
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--")
    ]
    below = {name: one for name, one in getattr(command, "commands", {}).items() if not one.hidden}
    yield path, [*below, *options, "--help"]
    for name, one in below.items():
        yield from _walk(one, f"{path} {name}".strip())


def make_script(shell: Shell, words: dict[str, list[str]]) -> str:
    """Return the script for a shell.

    Args:
        shell: which one.
        words: as `words_by_command` returns it.  Names of commands and options need no quoting in any shell.
    """
    cases = "\n".join(f'    "{path}") offers="{" ".join(dict.fromkeys(each))}" ;;' for path, each in words.items())
    paths = " | ".join(f'"{path}"' for path in words if path)
    if shell == "bash":
        return _BASH.replace("CASES", cases).replace("PATHS", paths)
    if shell == "zsh":
        return _ZSH.replace("CASES", cases).replace("PATHS", paths)
    lines = "\n".join(
        f'        case "{path}"\n            set words {" ".join(dict.fromkeys(each))}' for path, each in words.items()
    )
    return _FISH.replace("CASES", lines).replace("PATHS", " ".join(f'"{path}"' for path in words if path))


_BASH = """# Completes alcove in bash; made by: alcove completion bash
_alcove() {
  local path="" offers="" at
  for ((at = 1; at < COMP_CWORD; at++)); do
    case "${path:+$path }${COMP_WORDS[at]}" in
      PATHS) path="${path:+$path }${COMP_WORDS[at]}" ;;
    esac
  done
  case "$path" in
CASES
  esac
  COMPREPLY=()
  if [[ $offers == --* && ${COMP_WORDS[COMP_CWORD]} != -* ]]; then
    return # of a file
  fi
  COMPREPLY=($(compgen -W "$offers" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _alcove alcove"""

_ZSH = """#compdef alcove
# Completes alcove in zsh; made by: alcove completion zsh
_alcove() {
  local typed="" offers="" at candidate
  for ((at = 2; at < CURRENT; at++)); do
    candidate="${typed:+$typed }${words[at]}"
    case "$candidate" in
      PATHS) typed="$candidate" ;;
    esac
  done
  case "$typed" in
CASES
  esac
  if [[ $offers == --* && $PREFIX != -* ]]; then
    _files
  else
    compadd -- ${=offers}
  fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _alcove "$@"
else
  compdef _alcove alcove
fi"""

_FISH = """# Completes alcove in fish; made by: alcove completion fish
function __alcove_words
    set -l path ""
    set -l tokens (commandline -opc)
    for token in $tokens[2..-1]
        set -l longer (string trim "$path $token")
        if contains -- "$longer" PATHS
            set path "$longer"
        end
    end
    set -l words
    switch "$path"
CASES
    end
    printf '%s\\n' $words
end
complete -c alcove -f -n 'not string match -q -- "--*" (__alcove_words)[1]' -a '(__alcove_words)'
complete -c alcove -n 'string match -q -- "--*" (__alcove_words)[1]' -a '(__alcove_words)'"""
