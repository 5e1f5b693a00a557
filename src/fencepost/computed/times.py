"""Fields of dates and timestamps, and what the clock of a zone shows."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.computed.numbers import Values, both
from fencepost.ordinals import AttributeType
from fencepost.ordinals.zones import instants_at, walls_of

DAY = 86_400_000_000
_HOUR, _MINUTE, _SECOND = 3_600_000_000, 60_000_000, 1_000_000

UNITS = {
    "YEAR": "YEAR",
    "YEARS": "YEAR",
    "QUARTER": "QUARTER",
    "MONTH": "MONTH",
    "MON": "MONTH",
    "WEEK": "WEEK",
    "DAY": "DAY",
    "DAYOFMONTH": "DAY",
    "DOW": "DAYOFWEEK",
    "DAYOFWEEK": "DAYOFWEEK",
    "DOW_ISO": "DAYOFWEEK_ISO",
    "DAYOFWEEK_ISO": "DAYOFWEEK_ISO",
    "ISODOW": "DAYOFWEEK_ISO",
    "DOY": "DAYOFYEAR",
    "DAYOFYEAR": "DAYOFYEAR",
    "HOUR": "HOUR",
    "MINUTE": "MINUTE",
    "SECOND": "SECOND",
}
"""The fields that EXTRACT knows, by their names."""

_CALENDAR = {
    "YEAR": pc.year,
    "QUARTER": pc.quarter,
    "MONTH": pc.month,
    "WEEK": pc.iso_week,
    "DAY": pc.day,
    "DAYOFYEAR": pc.day_of_year,
}


def field(values: Values, type_: AttributeType, unit: str, zone: str | None) -> Values:
    """A field of each date or timestamp; `zone` is that of rules, which counts for instants.

    Weeks are those of ISO 8601. DAYOFWEEK is 1 on Sundays as in Spark, DAYOFWEEK_ISO 1 on Mondays.
    """
    data, valid = values
    if type_.kind == "date":
        walls = data * DAY
    elif zone is None or type_.kind == "timestamp_ntz":
        walls = data
    else:
        walls, fits = walls_of(data, zone)
        valid = both(valid, fits)
    in_day = walls % DAY
    if unit == "HOUR":
        return Values(in_day // _HOUR, valid)
    if unit == "MINUTE":
        return Values(in_day // _MINUTE % 60, valid)
    if unit == "SECOND":
        return Values(in_day // _SECOND % 60, valid)
    days = walls // DAY
    if unit == "DAYOFWEEK":
        return Values((days + 4) % 7 + 1, valid)  # 1970 began on a Thursday
    if unit == "DAYOFWEEK_ISO":
        return Values((days + 3) % 7 + 1, valid)
    dates = pa.array(days.astype(np.int32)).view(pa.date32())
    return Values(np.asarray(_CALENDAR[unit](dates)).astype(np.int64), valid)


def at_zone(values: Values, type_: AttributeType, zone: str) -> Values:
    """What the clock of a zone shows at instants, or the instants at which it shows this."""
    data, valid = values
    shifted = walls_of(data, zone) if type_.kind == "timestamp" else instants_at(data, zone)
    return Values(shifted.counts, both(valid, shifted.fits))
