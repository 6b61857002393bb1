DROP TABLE owner_notes;
ALTER TABLE pets DROP weight, DROP code;
