"""Charts: what a picture shows is there as a table, too, and escaped."""

from alcove.platform.console.assets import Assets
from alcove.platform.console.charts import Axis, Chart, Line, Point, Series
from alcove.platform.console.rendering import Renderer

TEMPLATE = '{% import "components/charts.html" as charts %}{{ charts.show(chart) }}'


def show(chart: Chart) -> str:
    """What a page has of a chart."""
    return Renderer(Assets()).environment.from_string(TEMPLATE).render(chart=chart)


def chart(*points: Point, name: str = "difference") -> Chart:
    """A chart of one series."""
    line = Line("margin", 0.5)
    y = Axis("Difference", "percentage points")
    return Chart("guard-1", "Refused answers", Axis("Time", kind="time"), y, [Series(name, points)], [line])


def test_a_chart_is_a_table_for_those_who_see_no_picture() -> None:
    """The value, its interval and the margin are words and numbers on the page."""
    page = show(chart(Point(1_800_000_000, 0.25, 0.1, 0.4)))
    assert 'datetime="2027-01-15T08:00:00Z"' in page
    assert "[0.1, 0.4]" in page
    assert "margin: " in page


def test_a_chart_without_a_value_says_so() -> None:
    """Neither an empty picture nor an empty table."""
    page = show(chart(Point(1_800_000_000, None)))
    assert "No reports yet." in page
    assert "<table" not in page


def test_markup_in_a_name_stays_text() -> None:
    """In the table and in what the script reads."""
    page = show(chart(Point(1, 2.0), name="\"><script>alert('1')</script>"))
    assert "<script" not in page


def test_an_end_that_is_infinite_is_unbounded_to_the_script() -> None:
    """JSON knows no infinity; a browser would refuse the whole chart."""
    found = chart(Point(1, 2.0, float("-inf"), float("nan"))).to_json()
    assert found["series"][0]["points"][0] == {"x": 1, "y": 2.0, "low": None, "high": None}
