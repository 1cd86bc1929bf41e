"""Mistakes on the command line in the form of all other errors: "subject: rule, got value; remedy"."""

from __future__ import annotations

from typing import Any

import click

from netsim.core.errors import InputError, closest

__all__ = ["Group", "usage_error"]


class Group(click.Group):
    """Commands under one name; says which there are when none, or an unknown one, is given."""

    def __init__(self, *words: Any, **options: Any) -> None:
        # click would make an "error" of many lines of the help text.
        super().__init__(*words, **{**options, "no_args_is_help": False})

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command a word names, or an error that names all."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            # A word that begins with a dash is an option, and click says so below.
            if args and not args[0].startswith("-"):
                remedy = closest(args[0], self.commands)
                raise InputError(_subject(ctx), "unknown name", got=repr(args[0]), remedy=remedy) from None
            raise


def _subject(ctx: click.Context) -> str:
    return "command" if ctx.parent is None else f"command of {ctx.command_path}"


def usage_error(error: click.ClickException) -> InputError:
    """What click found wrong, as an error of netsim."""
    ctx = getattr(error, "ctx", None)
    remedy = f"{ctx.command_path} --help shows the options" if ctx is not None else None
    if ctx is not None and isinstance(ctx.command, click.Group) and type(error) is click.UsageError:
        remedy = f"valid: {', '.join(ctx.command.list_commands(ctx))}"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        option = isinstance(error.param, click.Option)
        name = error.param.opts[0] if option else error.param.human_readable_name.upper()
        return InputError(f"{'option' if option else 'argument'} {name}", "is missing", remedy=remedy)
    if isinstance(error, click.NoSuchOption):
        names = [name for p in ctx.command.get_params(ctx) for name in p.opts] if ctx is not None else []
        near = closest(error.option_name, names).split(" valid:")[0]
        hint = near if near.startswith("did you mean") else remedy
        return InputError(f"option {error.option_name}", "unknown name", remedy=hint)
    if isinstance(error, click.BadOptionUsage):
        rule = _sentence(error).removeprefix(f"option {error.option_name!r} ")
        return InputError(f"option {error.option_name}", rule, remedy=remedy)
    return InputError(ctx.command_path if ctx is not None else "command line", _sentence(error), remedy=remedy)


def _sentence(error: click.ClickException) -> str:
    text = error.format_message().strip().rstrip(".")
    return text[:1].lower() + text[1:]
