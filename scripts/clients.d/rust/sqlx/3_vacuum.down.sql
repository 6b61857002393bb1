ANALYZE pets;
