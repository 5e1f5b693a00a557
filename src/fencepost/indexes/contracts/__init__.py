"""What every structure of a family must do: intervals, boxes, borders, bands; registry.py has their ids and bounds."""
