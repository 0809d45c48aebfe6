/**
 * What the client would rather have: the offered one with the highest weight in the header (`Accept`,
 * `Accept-Encoding`), if it is named there. Undefined when it would as soon have what we send by default.
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
