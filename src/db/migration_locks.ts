type Migration = { name: string; text: string }

/** The first keeps everyone from a table; the second only those who write. */
export type LockMode = 'access exclusive' | 'share row exclusive'

/** Those up to this one were released without the header, and their text cannot change. */
const lastWithoutHeader = '0042_bucket_revision.sql'
const needsHeader = ({ name }: Migration): boolean => name > lastWithoutHeader

const headers: Record<LockMode, RegExp> = {
  'access exclusive': /^-- locks: (.+)$/gm,
  'share row exclusive': /^-- locks writes: (.+)$/gm,
}

/** From the comment at the top of the file, in which a line may be repeated. */
function named({ text }: Migration, mode: LockMode): string[] {
  const [top = ''] = /^(?:--.*\n)*/.exec(text) ?? []
  return [...top.matchAll(headers[mode])].flatMap(([, names = '']) => names.split(',').map((name) => name.trim()))
}

/** Older migrations lock every table whose name they contain. */
export function locksTable(migration: Migration, table: string, mode: LockMode): boolean {
  if (needsHeader(migration)) return named(migration, mode).includes(table)
  return mode === 'access exclusive' && new RegExp(`\\b${table}\\b`).test(migration.text)
}

export function assertNamesLocks(migration: Migration): void {
  const modes: LockMode[] = ['access exclusive', 'share row exclusive']
  if (!needsHeader(migration) || modes.some((mode) => named(migration, mode).length > 0)) return
  throw new Error(
    `${migration.name} does not say which tables it locks: begin it with '-- locks: edges', '-- locks writes: accounts' or '-- locks: none'`,
  )
}
