"""Which pairs a person should look at: found copies, missed copies, false alarms."""

from dataclasses import dataclass

from submissions.report.inputs import ReportInputs

EACH = 24


@dataclass(frozen=True)
class Card:
    """One query beside a reference; `rank` is the pair's place among all pairs, None when it was not among them."""

    query_id: str
    reference_id: str
    distance: float | None
    rank: int | None
    true_reference_id: str | None
    edits: str


def found_copies(inputs: ReportInputs, edits: dict[str, str]) -> list[Card]:
    """True pairs, evenly spread over the ranking, so that easy and hard ones are seen."""
    places = [place for place, true in enumerate(inputs.ranked.true) if true]
    step = max(1, len(places) // EACH)
    return [_card(inputs, edits, place) for place in places[::step][:EACH]]


def false_alarms(inputs: ReportInputs, edits: dict[str, str]) -> list[Card]:
    """The wrong pairs that rank highest."""
    places = [place for place, true in enumerate(inputs.ranked.true) if not true]
    return [_card(inputs, edits, place) for place in places[:EACH]]


def missed_copies(inputs: ReportInputs, edits: dict[str, str]) -> list[Card]:
    """True pairs that rank behind most others or not at all, beside what ranked first for the query."""
    ranked = inputs.ranked
    place_of = {pair: place for place, pair in enumerate(zip(ranked.query_ids, ranked.reference_ids, strict=True))}
    best: dict[str, int] = {}
    for place, query_id in enumerate(ranked.query_ids):
        best.setdefault(query_id, place)
    pairs = sorted(inputs.ground_truth.pairs, key=lambda pair: (-place_of.get(pair, len(place_of)), pair))
    cards = []
    for query_id, reference_id in pairs[:EACH]:
        first = best.get(query_id)
        rank = place_of.get((query_id, reference_id))
        shown = ranked.reference_ids[first] if first is not None else reference_id
        distance = float(ranked.distances[rank]) if rank is not None else None
        cards.append(Card(query_id, shown, distance, None if rank is None else rank + 1, reference_id, edits.get(query_id, "")))
    return cards


def _card(inputs: ReportInputs, edits: dict[str, str], place: int) -> Card:
    ranked = inputs.ranked
    query_id, reference_id = ranked.query_ids[place], ranked.reference_ids[place]
    own = next((reference for query, reference in inputs.ground_truth.pairs if query == query_id), None)
    return Card(query_id, reference_id, float(ranked.distances[place]), place + 1, own, edits.get(query_id, ""))
