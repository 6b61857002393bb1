-- no-transaction
VACUUM pets;
