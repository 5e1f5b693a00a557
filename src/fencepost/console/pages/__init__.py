"""A module per group of pages: overview, rules, objects, events, versions. Each gives its routes."""

from fencepost.console.pages.events import event_pages
from fencepost.console.pages.objects import object_pages
from fencepost.console.pages.overview import overview_pages
from fencepost.console.pages.rules import rule_pages
from fencepost.console.pages.versions import version_pages

__all__ = ["event_pages", "object_pages", "overview_pages", "rule_pages", "version_pages"]
