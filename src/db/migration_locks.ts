type Migration = { name: string; text: string }

/** The first blocks all access to a table, the second only writes. */
export type LockMode = 'access exclusive' | 'share row exclusive'

/** Migrations up to this one were released without the header, and released migrations never change. */
const lastWithoutHeader = '0042_bucket_revision.sql'
const needsHeader = ({ name }: Migration): boolean => name > lastWithoutHeader

const headers: Record<LockMode, RegExp> = {
  'access exclusive': /^-- locks: (.+)$/gm,
  'share row exclusive': /^-- locks writes: (.+)$/gm,
}

/** Reads the comment at the top of the file, in which the header may occur several times. */
function named({ text }: Migration, mode: LockMode): string[] {
  const [top = ''] = /^(?:--.*\n)*/.exec(text) ?? []
  return [...top.matchAll(headers[mode])].flatMap(([, names = '']) => names.split(',').map((name) => name.trim()))
}

/** Migrations without headers lock every table that they mention. */
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
