/** The role of `gatehouse serve` here: it owns nothing and has what `gatehouse migrate` grants. */
export const appRole = 'gatehouse_app'

/** The same database, as that role. */
export function asAppRole(databaseUrl: string): string {
  const url = new URL(databaseUrl)
  url.username = appRole
  url.password = appRole
  return url.href
}
