CREATE VIEW heavy AS SELECT id, name FROM pets WHERE weight > 50;
