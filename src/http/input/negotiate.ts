/**
 * The offered value with the highest weight in the header (`Accept`, `Accept-Encoding`). Undefined if the client
 * accepts our default at least as well.
 */
export function preferred(header: string | undefined, offered: readonly string[], byDefault: string) {
  if (header === undefined || offered.length === 0) return undefined
  const weights = new Map(
    header.split(',').map((entry): [string, number] => {
      const [name = '', ...parameters] = entry.split(';').map((part) => part.trim().toLowerCase())
      const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
      return [name, weight === undefined ? 1 : Number(weight) || 0]
    }),
  )
  const least = weights.get(byDefault) ?? 0
  return offered
    .filter((name) => (weights.get(name) ?? 0) > least)
    .reduce<string | undefined>(
      (best, name) => (best === undefined || (weights.get(name) ?? 0) > (weights.get(best) ?? 0) ? name : best),
      undefined,
    )
}
