CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE owners (
    id serial PRIMARY KEY,
    name varchar(40) NOT NULL UNIQUE,
    since timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE pets (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id int NOT NULL REFERENCES owners ON DELETE CASCADE,
    name text NOT NULL,
    born date,
    tags text[] NOT NULL DEFAULT '{}',
    extra jsonb
);
INSERT INTO owners (name) VALUES ('Anna;'), ('Ben');
