DROP TABLE pets, owners;
DROP TYPE mood;
