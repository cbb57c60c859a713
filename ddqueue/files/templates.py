"""Reads an engine profile's templates: how each setting is said to one build of SGLang."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ddqueue.domain.inventory import SettingTemplate
from ddqueue.files.typed import Field
from ddqueue.files.values import Owned, check_variable

PLACEHOLDERS: Mapping[str, frozenset[str]] = {
    "speculation": frozenset({"drafter"}),
    "block_size": frozenset({"value", "drafter"}),
    "budget": frozenset({"value", "width", "drafter"}),
    "topk": frozenset({"value"}),
    "window": frozenset({"value"}),
    "no_window": frozenset(),
}
"""The settings a profile can have a template for, each with the placeholders that mean something there."""

MAY_SAY_NOTHING = frozenset({"block_size", "no_window"})
"""Settings whose template may be empty: the build then runs the drafter's own block size, or needs no flag for a full
window. An empty template of any other setting would record a setting that was never applied."""

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]+)\}")
_FLAGS_REMEDY = 'Write a list of words: [--speculative-ddtree-budget, "{value}"].'


def read_templates(field: Field | None) -> dict[str, SettingTemplate]:
    """The `settings:` of an engine profile."""
    section = field.mapping("Write {budget: {flags: [...]}}.") if field else None
    if section is None:
        return {}
    section.allow(tuple(PLACEHOLDERS))
    return {
        setting: _template(setting, value, PLACEHOLDERS[setting])
        for setting, value in section
        if setting in PLACEHOLDERS
    }


def check_placeholders(text: str, field: Field, allowed: frozenset[str]) -> bool:
    """Whether every {placeholder} in `text` is one that gets filled in here."""
    unknown = [name for name in _PLACEHOLDER.findall(text) if name not in allowed]
    for name in unknown:
        known = ", ".join(f"{{{word}}}" for word in sorted(allowed)) or "none"
        field.refuse(f"nothing fills in {{{name}}}", f"Placeholders here: {known}.")
    return not unknown


def _template(setting: str, field: Field, placeholders: frozenset[str]) -> SettingTemplate:
    section = field.mapping("Write {flags: [...]}, {env: {NAME: ...}} or both.")
    if section is None:
        return SettingTemplate()
    section.allow(("flags", "env"))
    flags_field, env_field = section.get("flags"), section.get("env")
    flags, env = [], {}
    for item in (flags_field.sequence(_FLAGS_REMEDY, empty=True) if flags_field else None) or ():
        word = item.word(_FLAGS_REMEDY)
        if word is not None and check_placeholders(word, item, placeholders):
            flags.append(word)
    for name, value in (env_field.mapping('Write {NAME: "{value}"}.') if env_field else None) or ():
        word = value.word('Write text, e.g. "{value}".')
        if word is not None and check_variable(name, value, Owned.always()):
            check_placeholders(word, value, placeholders)
            env[name] = word
    if not section.node.entries and setting not in MAY_SAY_NOTHING:
        field.refuse(f"the template of {setting} says nothing", f"Write its flags, or leave {setting} out.")
    needed = "value" in placeholders and (flags or env)
    if needed and not any("{value}" in text or "{width}" in text for text in (*flags, *env.values())):
        field.refuse(f"the template of {setting} never says its value", 'Put "{value}" where the value belongs.')
    return SettingTemplate(tuple(flags), env)
