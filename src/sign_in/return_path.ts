const home = '/dashboard/'

/**
 * Where to go after signing in: always a page of the dashboard. An open redirect could lead from our sign-in to a site
 * that imitates ours.
 */
export function returnPath(asked: string | null): string {
  if (asked === null || asked.length > 1_024 || !/^\/dashboard\/[\x21-\x7e]*$/.test(asked)) return home
  // Browsers treat backslashes as slashes and resolve dots, so check the URL as they would resolve it.
  const url = URL.parse(asked, 'https://here.invalid')
  if (url?.origin !== 'https://here.invalid' || asked.includes('\\')) return home
  return url.pathname.startsWith(home) ? url.pathname + url.search : home
}
