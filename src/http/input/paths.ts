import { closest } from '../../kernel/closest.ts'

/** A longer path is no typing error, and it is repeated in the answer. */
const maxLength = 200

/**
 * The path that was probably meant: without a version or a trailing slash, with underscores, or the nearest that the API
 * has. It is made from the path and the list of operations alone, and so says nothing about what exists.
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
