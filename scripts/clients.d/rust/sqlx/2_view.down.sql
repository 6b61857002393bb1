DROP VIEW heavy;
