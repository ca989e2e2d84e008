"""Each view of the page, as somebody uses it, in a real browser against a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from page_util import Page, Served

pytestmark = pytest.mark.browser


# --- facts -----------------------------------------------------------------------------------------------------------


def test_counts_move_and_rows_light_up(page: Page, served: Served) -> None:
    page.go("#/facts/member")
    page.sees("8 facts", "main")
    served.update(add={"member": [["margaret", "network"]]})
    page.sees("9 facts", "main")
    page.sees("margaret", "tr.came")
    page.sees("+1", ".predicate[aria-current] .flash")
    served.update(delete={"member": [["margaret", "network"]]})
    page.sees("margaret", "tr.went")
    page.sees("8 facts", "main")


def test_facts_are_filtered_by_text_and_by_value(page: Page) -> None:
    page.go("#/facts/may")
    page.sees("edsger", ".rows")
    page.fill("input[aria-label='Filter facts']", "TONY")
    page.sees_no("edsger", ".rows")
    assert page.text_of(".rows tbody").split() == ["tony", "read", "handbook", "why?"]
    page.fill("input[aria-label='Filter facts']", "")
    page.sees("edsger", ".rows")
    page.press("firewall", ".rows")
    page.sees("3 = firewall", ".tools")
    page.sees("1–2 of 2", ".pages")
    page.press("No longer only column 3 = firewall")
    page.sees("1–27 of 27", ".pages")


def test_explicit_facts_alone(page: Page) -> None:
    page.go("#/facts/belongs")
    page.click(".tools input[type=checkbox]")
    page.sees("There are no facts now.")


def test_facts_come_in_pages(page: Page, served: Served) -> None:
    served.update(add={"number": [[n] for n in range(250)]})
    page.go("#/facts/number")
    page.sees("1–100 of 250", ".pages")
    page.press("Next →")
    page.sees("101–200 of 250", ".pages")
    page.press("Next →")
    page.sees("201–250 of 250", ".pages")
    page.sees_disabled("Next →")
    assert len(page.all(".rows tbody tr")) == 50
    page.press("← Previous")
    page.sees("101–200 of 250", ".pages")


def test_facts_are_added_and_deleted_by_hand(page: Page) -> None:
    page.go("#/facts/suspended")
    page.fill("input[aria-label='Facts to add or delete']", 'suspended("Guest 7")')
    page.press("Add")
    page.sees("1 fact came, 0 went", ".told")
    page.sees('"Guest 7"', "tr.came")
    page.fill("input[aria-label='Facts to add or delete']", 'suspended("Guest 7")')
    page.press("Delete")
    page.sees("0 facts came, 1 went", ".told")
    page.fill("input[aria-label='Facts to add or delete']", "suspended(")
    page.press("Add")
    page.sees("expected", ".told.failed")


def test_floats_and_integers_stay_apart(page: Page, served: Served) -> None:
    served.update(add="weight(one, 1). weight(float, 1.0). weight(large, 9007199254740993).")
    page.go("#/facts/weight")
    page.sees("9007199254740993", ".rows")
    page.press("1.0", ".rows")
    page.sees("1–1 of 1", ".pages")
    assert page.text_of(".rows tbody").split() == ["float", "1.0", "why?"]


# --- rules -----------------------------------------------------------------------------------------------------------

IDLE = "idle(P) :- member(P, T), not writes(P, _)."


def test_rule_is_checked_looked_at_applied_and_undone(page: Page) -> None:
    from page_util import Keys

    page.go("#/rules")
    page.in_editor("root.querySelector('.cm-content').focus()")
    page.keys(Keys.CONTROL, Keys.END)
    page.keys("idle(P) :- member(P T).")
    page.sees("Line 10", ".mistakes")
    wrong = page.in_editor("return root.querySelector('.cm-line:has(.cm-wrong) + .cm-mistake')?.textContent ?? ''")
    assert "found T" in wrong
    page.sees_disabled("What would change?")
    page.keys(*[Keys.BACKSPACE] * 4, ", T), not writes(P, _).")
    page.sees(IDLE, "[aria-label='Your edit']")
    page.press("What would change?")
    page.sees("idle(tony)", "[aria-label='What would change']")
    page.press("Apply")
    page.sees("Applied as update", "[aria-label='What changed']")
    page.sees("10 rules")
    page.sees(IDLE, "[aria-label='Undo']")
    page.press("Undo")
    page.sees("Taken back as update")
    page.sees("9 rules")
    page.sees("idle(tony)", "[aria-label='What changed'] .half.went")


def test_edit_survives_what_others_do(page: Page, served: Served) -> None:
    from page_util import Keys

    page.go("#/rules")
    page.in_editor("root.querySelector('.cm-content').focus()")
    page.keys(Keys.CONTROL, Keys.END)
    page.keys("team(T) :- member(_, T).")
    page.sees("team(T)", "[aria-label='Your edit']")
    served.update(add_rules="person(P) :- member(P, _).")
    page.sees("Somebody else has changed the rules.")
    page.press("What would change?")
    page.sees("team(billing)", "[aria-label='What would change']")
    page.press("Apply")
    page.sees("11 rules")
    shown = page.in_editor("return root.querySelector('.cm-content').textContent")
    assert "person(P) :- member(P, _)." in shown
    assert "team(T) :- member(_, T)." in shown
    served.update(remove_rules="person(P) :- member(P, _). team(T) :- member(_, T).")
    page.sees("9 rules")


def test_facts_among_rules_are_facts(page: Page) -> None:
    from page_util import Keys

    page.go("#/rules")
    page.in_editor("root.querySelector('.cm-content').focus()")
    page.keys(Keys.CONTROL, Keys.END)
    page.keys("boss(ada). heads(X) :- boss(X).")
    page.keys(Keys.CONTROL, Keys.ENTER)
    page.sees("heads(ada)", "[aria-label='What would change']")
    page.press("Reset")
    page.sees_no("Your edit")


def test_rules_that_go_round_in_negation_are_refused(page: Page) -> None:
    page.go("#/rules")
    page.type_rules("p(X) :- member(X, _), not q(X).\nq(X) :- member(X, _), not p(X).")
    page.sees("Line", ".mistakes")
    page.sees_disabled("What would change?")
    page.press("Reset")
    page.sees_no("Line", "main")


# --- queries ---------------------------------------------------------------------------------------------------------


def open_query(page: Page, text: str) -> None:
    page.fill("input[aria-label=Query]", text)
    page.press("Open")


def test_query_stays_open_and_updates_itself(page: Page, served: Served) -> None:
    page.go("#/queries")
    open_query(page, "granted(T, write, R)")
    page.sees("5 answers", ".query")
    served.update(add={"granted": [["interns", "write", "sandbox"]]})
    page.sees("sandbox", ".query tr.came")
    page.sees("6 answers", ".query")
    served.update(delete={"granted": [["interns", "write", "sandbox"]]})
    page.sees("sandbox", ".query tr.went")
    page.sees("5 answers", ".query")
    page.open("#/queries")
    page.sees("5 answers", ".query")
    page.press("Close granted(T, write, R)")
    page.sees("No query is open.")


def test_more_queries_than_connections(page: Page, served: Served) -> None:
    from page_util import wait_until

    page.go("#/queries")
    for number in range(8):
        open_query(page, f"suspended(X), X != {number}")
    page.sees("suspended(X), X != 0")
    wait_until(lambda: page.text_of(".query-state").count("1 answer ") == 8, lambda: page.text)
    served.update(add={"suspended": [["ada"]]})
    wait_until(lambda: page.text_of(".query-state").count("2 answers") == 8, lambda: page.text)
    served.update(delete={"suspended": [["ada"]]})


def test_query_with_a_mistake(page: Page) -> None:
    page.go("#/queries")
    page.fill("input[aria-label=Query]", "may(X")
    page.sees("expected", ".mistakes")
    page.press("Open")
    page.sees("expected", ".query .error")


def test_query_goes_on_after_the_server_came_back(page: Page, served: Served) -> None:
    page.go("#/queries")
    open_query(page, "suspended(X)")
    page.sees("1 answer ", ".query")
    page.requests()
    served.stop()
    page.sees("reconnecting", ".query")
    page.sees("reconnecting", ".top")
    served.start()
    served.update(add={"suspended": [["alan"]]})
    page.sees("alan", ".query tr.came")
    page.sees_no("reconnecting")
    assert page.headers_sent("/subscribe", "last-event-id")
    served.update(delete={"suspended": [["alan"]]})


HIDE = """
Object.defineProperty(document, "visibilityState", { value: arguments[0], configurable: true });
document.dispatchEvent(new Event("visibilitychange"));
"""


def test_hidden_page_hangs_up_and_catches_up(page: Page, served: Served) -> None:
    """Browsers open only six connections to a server, for all tabs."""
    from page_util import wait_until

    def streams() -> int:
        return int(served.get("/statistics")["subscriptions"]["streams"])

    page.go("#/facts/guarded")
    page.sees("3 facts", "main")
    page.browser.execute_script(HIDE, "hidden")
    wait_until(lambda: streams() == 0, lambda: str(streams()))
    served.update(add={"guarded": [["orders"]]})
    page.browser.execute_script(HIDE, "visible")
    page.sees("4 facts", "main")
    page.sees("orders", ".rows")
    served.update(delete={"guarded": [["orders"]]})
    page.sees("orders", "tr.went")


# --- graph -----------------------------------------------------------------------------------------------------------


def test_graph_shows_components_and_their_rules(page: Page) -> None:
    from page_util import Keys

    page.go("#/graph")
    page.sees("9 rules in 7 components")
    page.one("[data-id='p:member']")
    page.click(".dag-box[aria-label^='belongs, recursive, 2 rules, 25 facts']")
    page.sees("belongs(P, U) :- belongs(P, T), within(T, U).", "[aria-label='Chosen component']")
    page.sees("rule applications", "[aria-label='Chosen component']")
    page.keys(Keys.ARROW_RIGHT, Keys.ENTER)
    page.sees("may(P, A, R) :-", "[aria-label='Chosen component']")
    page.click("[data-id='p:guarded']")
    page.sees("exposed(R) :- reaches(portal, R), guarded(R).", "[aria-label='Chosen predicate']")
    page.click("[aria-label='Chosen predicate'] a")
    page.sees("invoices", ".rows")


# --- proofs ----------------------------------------------------------------------------------------------------------


def test_proof_from_a_fact_as_tree_and_as_graph(page: Page) -> None:
    from page_util import Keys

    page.go("#/facts/sensitive")
    page.click("a[aria-label='Why sensitive(barbara, invoices)']")
    page.sees("holds", ".verdict")
    page.sees("no fact matches suspended(barbara)", "[role=tree]")
    page.sees("by sensitive(P, R) :- may(P, write, R), exposed(R).", "[role=tree]")
    page.click("[role=treeitem]")
    page.sees_no("suspended(barbara)", "[role=tree]")
    page.browser.execute_script("document.querySelector('[role=treeitem]').focus()")
    page.keys(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    page.sees("granted(billing, write, invoices)", "[role=tree]")
    assert page.browser.switch_to.active_element.get_attribute("aria-level") == "2"
    page.press("Graph")
    page.click(".dag-box[aria-label='guarded(invoices), explicit']")
    page.sees("guarded(invoices) explicit", ".step")


def test_why_not_down_to_the_missing_fact(page: Page) -> None:
    page.go("#/proofs/may(frances%2C%20write%2C%20firewall)")
    page.sees("does not hold", ".verdict")
    page.sees("missing", "main")
    page.press("What if it held?")
    page.sees("may(frances, write, firewall)", ".missing .half.came")


def test_why_a_fact_vanished(page: Page, served: Served) -> None:
    served.update(add={"member": [["hedy", "network"]]})
    served.update(delete={"member": [["hedy", "network"]]})
    page.go("#/proofs/may(hedy%2C%20write%2C%20firewall)")
    page.sees("Why it vanished")
    page.sees("member(hedy, network)", "[aria-label='Why it vanished'] .half.went")
    page.sees("gone", "[aria-label='Why it vanished'] .badge.hot")


def test_text_that_is_no_fact(page: Page) -> None:
    page.go("#/proofs/")
    page.fill("input[aria-label=Fact]", "may(tony")
    page.press("Explain")
    page.sees("expected", ".error")


# --- updates ---------------------------------------------------------------------------------------------------------


def test_updates_are_charted_as_they_come(page: Page, served: Served) -> None:
    from page_util import Keys

    served.update(add={"calls": [["a", "b"]]})
    page.go("#/updates")
    page.one(".chart.latency .bar-group")
    before = len(page.all(".chart.latency .bar-group"))
    number = served.update(delete={"calls": [["a", "b"]]})["update"]
    page.one(f".chart.latency .bar-group[data-key='{number}']")
    assert len(page.all(".chart.work .bar-group")) == len(page.all(".chart.latency .bar-group")) == before + 1
    page.click(f".chart.latency .bar-group[data-key='{number}']")
    page.sees("reaches\n−1", f"[aria-label='Update {number}']")
    page.browser.execute_script(f"document.querySelector('.latency [data-key=\"{number}\"]').focus()")
    page.keys(Keys.ARROW_LEFT)
    page.sees("reaches\n+1", f"[aria-label='Update {number - 1}']")
    page.press("Pause")
    served.update(add={"calls": [["c", "d"]]})
    page.press("Go on")
    page.one(f".chart.latency .bar-group[data-key='{number + 1}']")
