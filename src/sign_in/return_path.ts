const home = '/dashboard/'

/**
 * Where the browser goes after signing in: always a page of the dashboard. Otherwise a link to our sign-in could lead to
 * another site that looks like ours.
 */
export function returnPath(asked: string | null): string {
  if (asked === null || asked.length > 1_024 || !/^\/dashboard\/[\x21-\x7e]*$/.test(asked)) return home
  // Browsers take a backslash for a slash, and drop dots: what they would make of it has to stay where it seems to be.
  const url = URL.parse(asked, 'https://here.invalid')
  if (url?.origin !== 'https://here.invalid' || asked.includes('\\')) return home
  return url.pathname.startsWith(home) ? url.pathname + url.search : home
}
