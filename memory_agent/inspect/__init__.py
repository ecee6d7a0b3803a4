"""Pages for people, at /inspect: what is remembered, found, left out, owed and gone. Rendered here, readable without JavaScript."""
