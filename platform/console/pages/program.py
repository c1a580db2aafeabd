"""Shows a variant's program: its graph, memory plan, operators and weights, as `alcove model inspect --html` does.

The page is for a frame of the version's page (S5 of `security.py`): it is made of what a program says of itself.
"""

from http import HTTPStatus

from aiohttp import web
from alcove.platform.client import VersionDetails
from alcove.platform.console.pages.features import FEATURE
from alcove.platform.console.pages.page import Pages
from alcove.platform.console.pages.versions import VERSION
from alcove.platform.console.programs.opener import PROGRAMS, ProgramNotShownError, VariantProgram, variants_of
from alcove.platform.console.rendering import theme_of, wants_json
from alcove.platform.inspection.page import page_of, page_of_refusal, policy_of_page

__all__ = ["routes"]

VARIANT = r"{variant:[a-z0-9][a-z0-9_-]{0,31}}"


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""
    policy = policy_of_page()

    async def program(request: web.Request) -> web.Response:
        feature, version, variant = (request.match_info[name] for name in ("feature", "version", "variant"))
        details: VersionDetails = await pages.ask(
            request, lambda client: client.version_details(feature, version=version)
        )
        status, theme = HTTPStatus.OK, theme_of(request)
        try:
            facts = await request.app[PROGRAMS].facts(lambda work: pages.ask(request, work), _find(details, variant))
        except ProgramNotShownError as error:
            status = HTTPStatus.UNPROCESSABLE_ENTITY
            if wants_json(request):
                return web.json_response(
                    {"error": {"kind": "ProgramNotShownError", "detail": error.reason}}, status=status
                )
            text = page_of_refusal(error.reason, theme=theme)
        else:
            if wants_json(request):
                return web.json_response(facts)
            text = page_of(facts, theme=theme)
        headers = {"Content-Security-Policy": policy, "X-Frame-Options": "SAMEORIGIN"}
        answer = web.Response(text=text, content_type="text/html", charset="utf-8", status=status, headers=headers)
        answer.enable_compression()
        return answer

    path = f"/features/{FEATURE}/versions/{VERSION}/programs/{VARIANT}"
    return [web.get(path + ".json", program), web.get(path, program)]


def _find(details: VersionDetails, variant: str) -> VariantProgram:
    found = variants_of(details).get(variant)
    if found is None:
        raise web.HTTPNotFound
    return found
