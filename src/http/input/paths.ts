import { closest } from '../../kernel/closest.ts'

/** A longer path is hardly a typo, and the response repeats it. */
const maxLength = 200

/**
 * Suggests the intended path: without a version or a trailing slash, with underscores, or the closest path of the API.
 * Uses only the requested path and the list of operations, so it reveals nothing about stored data.
 */
export function suggestPath(paths: readonly string[]): (path: string) => string | undefined {
  const patterns = paths.map((path) => new RegExp(`^${path.replaceAll(/:\w+/g, '[^/]+')}$`))
  const lists = paths.filter((path) => !path.includes(':'))
  return (path) => {
    if (path.length > maxLength) return undefined
    if (path === '/') return '/docs/'
    const usual = path.replace(/\/+$/, '').replace(/^(?:\/api)?(?:\/v\d+)?(?=\/)/, '')
    const spelled = usual.toLowerCase().replaceAll('-', '_')
    const fits = [usual, spelled].find((candidate) => patterns.some((pattern) => pattern.test(candidate)))
    return fits ?? closest(spelled, lists)
  }
}
