"""The campaign: every promise of the product, tried again and again with fresh seeds. CONTRIBUTING.md says how."""
