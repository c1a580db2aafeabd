"""Gives an experiment's report: a page to print, and its numbers as CSV, Parquet and JSON."""

from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from alcove.platform.client import ExperimentReport, PlatformClient
from alcove.platform.console.exports import Record, can_write_parquet, csv_of, parquet_of
from alcove.platform.console.pages.experiments.detail import PATH
from alcove.platform.console.pages.experiments.reading import context_of, read
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.problems import Problem
from alcove.platform.console.rendering import wants_json

__all__ = ["TABLES", "routes"]

TABLES: Final = {"differences": "Differences", "arms": "Arms", "cells": "Cells of the reports"}
_NO_PARQUET: Final = Problem(
    HTTPStatus.NOT_IMPLEMENTED,
    "No Parquet here",
    "This console writes Parquet with pyarrow, which is not installed.",
    "Install alcove-platform[parquet] where the console runs, or take the CSV.",
    "MissingExtraError",
)


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of the report and its files."""

    async def report(request: web.Request) -> Answer:
        experiment_id = request.match_info["experiment_id"]
        with_cells = wants_json(request)  # the page to print shows none
        reading = await pages.ask(request, lambda client: read(client, experiment_id, with_cells=with_cells))
        found = reading.report
        data = reading.to_json() | {
            "differences": [] if found is None else found.records(),
            "arms": [] if found is None else found.arm_records(),
            "cells": [] if found is None else _cell_records(found),
        }
        context = context_of(reading) | {"has_parquet": can_write_parquet(), "files": TABLES}
        return Answer("experiments/report.html", context, data)

    async def download(request: web.Request) -> web.Response:
        experiment_id, kind = request.match_info["experiment_id"], request.match_info["kind"]
        table = request.query.get("table", "differences")
        if table not in TABLES:
            raise web.HTTPBadRequest(text=f"table: expected one of {', '.join(TABLES)}")
        if kind == "parquet" and not can_write_parquet():
            return pages.refuse(request, _NO_PARQUET)
        body = await pages.ask(request, lambda client: _write(client, experiment_id, table, kind))
        return web.Response(
            body=body,
            content_type="text/csv" if kind == "csv" else "application/vnd.apache.parquet",
            charset="utf-8" if kind == "csv" else None,
            headers={"Content-Disposition": f'attachment; filename="{experiment_id}-{table}.{kind}"'},
        )

    return [
        *pages.routes(PATH + "/report", report),
        web.get(PATH + "/report.{kind:csv|parquet}", download),
    ]


def _write(client: PlatformClient, experiment_id: str, table: str, kind: str) -> bytes:
    records = _records(client.results(experiment_id, with_cells=table == "cells"), table)
    return csv_of(records).encode() if kind == "csv" else parquet_of(records)


def _records(report: ExperimentReport, table: str) -> list[Record]:
    match table:
        case "arms":
            return report.arm_records()
        case "cells":
            return _cell_records(report)
        case _:
            return report.records()


def _cell_records(report: ExperimentReport) -> list[Record]:
    """Return one record for each cell of the reports."""
    experiment, cells = report.experiment, report.results.cells
    if cells is None:
        return []
    records = []
    for row in cells.rows:
        fields: dict[str, Any] = row.model_dump(mode="json")
        arm = experiment.arms[fields.pop("arm")]
        outcomes = " ".join(fields.pop("outcomes"))
        head = {"experiment_id": experiment.experiment_id, "arm": arm.name, "version": arm.version}
        records.append(head | {"outcomes": outcomes} | fields)
    return records
