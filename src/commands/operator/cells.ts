import { parseArgs } from 'node:util'
import type { Config } from '../../config/config.ts'
import { unusualAboveIn } from '../../config/unusual_changes.ts'
import type { DbPool } from '../../db/pool.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { cellNamePattern } from '../../kernel/edge/cells.ts'
import { toId } from '../../kernel/ids.ts'
import type { UnusualAbove } from '../../kernel/unusual_change.ts'
import { cellsOf } from '../../operations/placement.ts'
import { findAccount, noSuchAccount } from '../accounts/find.ts'
import { CellsFault, createCell, deleteCell, listCellsInUse } from '../cells/cells.ts'
import { edgesNamingCells, isPlacedByName, lacking, place } from '../cells/placement.ts'
import { off, setThresholds, shownThresholds } from '../cells/thresholds.ts'
import { withDatabase } from '../database.ts'

const flag = { type: 'boolean', default: false } as const

/** Manages cells, and which accounts they serve. Prints a JSON line for each cell or account affected. */
export const cells = (config: Config, verb: string, args: string[]): Promise<number> =>
  withDatabase(config, async (db) => {
    try {
      return await perform(db, verb, args, unusualAboveIn(config))
    } catch (error) {
      if (!(error instanceof CellsFault)) throw error
      console.error(`gatehouse: ${error.message}`)
      return 1
    }
  })

async function perform(db: DbPool, verb: string, args: string[], unusualAbove: UnusualAbove): Promise<number> {
  switch (verb) {
    case 'list':
      parseArgs({ args, options: {} })
      for (const cell of await listCellsInUse(db)) console.log(JSON.stringify(cell))
      return 0
    case 'create':
      return create(db, args)
    case 'set':
      return set(db, args)
    case 'delete': {
      const { positionals } = parseArgs({ args, options: {}, allowPositionals: true })
      await deleteCell(db, onlyOne(positionals, 'delete NAME'))
      return 0
    }
    case 'place':
      return placeOne(db, args, unusualAbove)
    case 'show': {
      const { positionals } = parseArgs({ args, options: {}, allowPositionals: true })
      return show(db, onlyOne(positionals, 'show ACCOUNT'))
    }
    default:
      console.error("gatehouse: unknown command; expected 'cells' list, create, set, delete, place or show")
      return 2
  }
}

function onlyOne([name, ...more]: string[], form: string): string {
  if (!name || more.length > 0) throw new ConfigError(`usage: gatehouse cells ${form}`)
  return name
}

async function create(db: DbPool, args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: { default: flag, yes: flag }, allowPositionals: true })
  const name = onlyOne(positionals, 'create NAME [--default]')
  if (!new RegExp(cellNamePattern).test(name))
    throw new ConfigError('NAME must have up to 32 small letters, digits and hyphens, with no hyphen at either end')
  const served = await createCell(db, { name, isDefault: values.default, confirmed: values.yes })
  console.log(JSON.stringify({ name, default: values.default, accounts: served }))
  console.error(`Let a node join it with: gatehouse nodes invite --cell ${name}`)
  return 0
}

/** Each threshold with its maximum, and whether it may be off. */
const thresholds = {
  'soak-seconds': { field: 'soak_seconds', most: 86_400, mayBeOff: false },
  'halt-addresses': { field: 'halt_addresses', most: 1_000_000_000, mayBeOff: true },
  'halt-addresses-percent': { field: 'halt_addresses_percent', most: 100, mayBeOff: true },
  'halt-errors-percent': { field: 'halt_errors_percent', most: 100, mayBeOff: true },
} as const

async function set(db: DbPool, args: string[]): Promise<number> {
  const text = { type: 'string' } as const
  const options = Object.fromEntries(Object.keys(thresholds).map((flag) => [flag, text]))
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
  const name = onlyOne(
    positionals,
    `set NAME ${Object.keys(thresholds)
      .map((flag) => `[--${flag} N]`)
      .join(' ')}`,
  )
  const wanted: Record<string, number | null> = {}
  for (const [flag, { field, most, mayBeOff }] of Object.entries(thresholds)) {
    const given = values[flag]
    if (given === undefined) continue
    const isOff = mayBeOff && given === off
    const isNumber = /^[1-9]\d{0,9}$/.test(given) && Number(given) <= most
    if (!isOff && !isNumber)
      throw new ConfigError(`--${flag} must be a whole number from 1 to ${most}${mayBeOff ? `, or ${off}` : ''}`)
    wanted[field] = isOff ? null : Number(given)
  }
  if (Object.keys(wanted).length === 0)
    throw new ConfigError(
      `say what to set: ${Object.keys(thresholds)
        .map((flag) => `--${flag}`)
        .join(', ')}`,
    )
  const after = await setThresholds(db, name, wanted)
  if (!after) throw new CellsFault(`there is no cell ${name}`)
  console.log(JSON.stringify({ name, ...shownThresholds(after) }))
  if (after.halt_addresses === null && after.halt_addresses_percent === null)
    console.error(`In ${name}, a change that refuses addresses which were let in is not halted`)
  if (after.halt_errors_percent === null) console.error(`In ${name}, a change after which requests fail is not halted`)
  return 0
}

async function placeOne(db: DbPool, args: string[], unusualAbove: UnusualAbove): Promise<number> {
  const options = { default: flag, 'dry-run': flag, yes: flag }
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
  const [nameOrId, ...names] = positionals
  if (!nameOrId || values.default === names.length > 0)
    throw new ConfigError('usage: gatehouse cells place ACCOUNT CELL… | place ACCOUNT --default')
  const account = await findAccount(db, nameOrId)
  if (!account) return unknownAccount(nameOrId)
  const isDryRun = values['dry-run']
  const { before, after, unusual } = await place(db, account, names, isDryRun, values.yes ? undefined : unusualAbove)
  const [added, removed] = [lacking(after, before), lacking(before, after)]
  console.log(JSON.stringify({ account_id: toId('ac', account.id), name: account.name, cells: after, added, removed }))
  const [sends, removes] = isDryRun ? ['would be sent', 'would be removed'] : ['are sent', 'are removed']
  if (added.length > 0) console.error(`The records of ${account.name} ${sends} to the nodes of ${added.join(', ')}`)
  if (removed.length > 0) console.error(`They ${removes} from the nodes of ${removed.join(', ')}`)
  if (isDryRun && unusual !== undefined)
    console.error(`These are ${unusual} edges, routes and backends: without --dry-run, it needs --yes`)
  if (added.length + removed.length === 0) console.error(`The same cells serve ${account.name} as before`)
  return 0
}

async function show(db: DbPool, nameOrId: string): Promise<number> {
  const account = await findAccount(db, nameOrId)
  if (!account) return unknownAccount(nameOrId)
  const served = (await cellsOf(db, account.id)).map(({ name }) => name)
  const placed = await isPlacedByName(db, account)
  const edges = await edgesNamingCells(db, account)
  console.log(JSON.stringify({ account_id: toId('ac', account.id), name: account.name, cells: served, placed, edges }))
  return 0
}

function unknownAccount(nameOrId: string): number {
  console.error(noSuchAccount(nameOrId))
  return 1
}
