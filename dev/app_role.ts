/** The role of `gatehouse serve`: it owns nothing, and has only what `gatehouse migrate` grants. */
export const appRole = 'gatehouse_app'

export function asAppRole(databaseUrl: string): string {
  const url = new URL(databaseUrl)
  url.username = appRole
  url.password = appRole
  return url.href
}
