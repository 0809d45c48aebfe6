type Owned = { hostport: string; account_id: string }

/** Pairs of different accounts that overlap, by comparing labels. Slow and plain: it judges what the database does. */
export function overlapsIn(rows: readonly Owned[]): string[] {
  const found: string[] = []
  for (const [index, one] of rows.entries())
    for (const other of rows.slice(index + 1))
      if (one.account_id !== other.account_id && overlap(one.hostport, other.hostport))
        found.push(`${one.hostport} and ${other.hostport}`)
  return found
}

function overlap(one: string, other: string): boolean {
  const [[name, port], [otherName, otherPort]] = [split(one), split(other)]
  if (port !== otherPort) return false
  if (port !== '443') return true
  return name === otherName || covers(name, otherName) || covers(otherName, name)
}

const split = (hostport: string): [name: string, port: string] => {
  const at = hostport.lastIndexOf(':')
  return [hostport.slice(0, at), hostport.slice(at + 1)]
}

function covers(wildcard: string, name: string): boolean {
  if (!wildcard.startsWith('*.')) return false
  const [domain, labels] = [wildcard.slice(2).split('.'), name.replace(/^\*\./, '').split('.')]
  return domain.every((label, index) => labels.at(index - domain.length) === label)
}
