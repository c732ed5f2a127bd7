export const profileQuery = `select "id" as "user_id", "email", "first_name", "last_name", "display_name",
  password_hash is not null as has_password from "users" where "id" = $1 limit 1`;
