ALTER TABLE pets ADD weight numeric(8, 3), ADD code uuid;
CREATE TABLE owner_notes (
    owner_id int REFERENCES owners,
    number smallint,
    note text NOT NULL,
    raw bytea,
    PRIMARY KEY (owner_id, number)
);
COMMENT ON TABLE owner_notes IS 'What was said';
