import {
  listRefusedAfterAllowed,
  type OutcomePlace,
  type OutcomeRow,
  outcomeTypes,
} from '../../access/evidence/address_outcomes.ts'
import { type Handling, route } from '../../http/route.ts'
import { invalidField } from '../../kernel/errors.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { parseAddress } from '../../kernel/ip/address.ts'
import { maxPageSize, pageUri } from '../../kernel/paging.ts'
import { parseRfc3339 } from '../../kernel/time.ts'
import { causesOf } from './causes.ts'
import { createRefuser, type RefusedNow } from './refused_now.ts'
import { NewlyRefusedList, NewlyRefusedQuery } from './schema.ts'
import { toNewlyRefused } from './view.ts'

/** Addresses examined per page. Those that are let in again, or whose edge is gone, are left out. */
const lookedAtPerPage = 1_000

type Request = Pick<
  Handling<unknown, { limit?: number; before?: string }, unknown>,
  'db' | 'caller' | 'evaluate' | 'query' | 'clock' | 'uri'
>
type Page = { found: (RefusedNow & { row: OutcomeRow })[]; next?: OutcomePlace }

/** Goes back from the latest refusal until the page is full. */
async function findPage({ db, caller, evaluate, query, clock }: Request): Promise<Page> {
  const { limit = maxPageSize } = query
  const refusalOf = createRefuser(db, caller, evaluate)
  const found: Page['found'] = []
  let place = query.before === undefined ? undefined : parsePlace(query.before)
  for (let lookedAt = 0; lookedAt < lookedAtPerPage; lookedAt += maxPageSize) {
    const rows = await listRefusedAfterAllowed(db, caller, clock(), place, maxPageSize + 1)
    await refusalOf.learn(rows)
    for (const row of rows.slice(0, maxPageSize)) {
      if (found.length === limit && place) return { found, next: place }
      const refused = await refusalOf(row)
      if (refused) found.push({ ...refused, row })
      place = row
    }
    if (rows.length <= maxPageSize) return { found }
  }
  return { found, ...(place && { next: place }) }
}

const formatPlace = ({ refused_at, type, target_id, ip }: OutcomePlace) => [refused_at, type, target_id, ip].join('~')

function parsePlace(text: string): OutcomePlace {
  const [refused_at = '', sentType = '', target_id = '', ip = ''] = text.split('~')
  const type = outcomeTypes.find((each) => each === sentType)
  // Validated here, because PostgreSQL would fail on anything else.
  const isReadable =
    parseRfc3339(refused_at) !== undefined && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(target_id)
  if (!type || !isReadable || !parseAddress(ip)) throw invalidField('before', 'must be taken from next_page_uri')
  return { refused_at, type, target_id: target_id as Uuid, ip }
}

export const newlyRefusedRoutes = [
  route({
    operation: 'newly_refused_addresses.list',
    summary:
      'List addresses that a recent change refuses, latest refusal first. They were allowed within the last seven days, were refused within the last 24 hours and would be refused now',
    method: 'GET',
    path: '/newly_refused_addresses',
    query: NewlyRefusedQuery,
    success: 200,
    response: NewlyRefusedList,
    // Addresses are personal data, and causes come from the audit log, so this is reserved for admins.
    access: 'admin',
    heavy: 'report',
    async handle(request) {
      const { db, caller, query, clock, uri } = request
      const { found, next } = await findPage(request)
      const causes = await causesOf(
        db,
        caller,
        found.map(({ row, target }) => ({ type: row.type, ip: row.ip, target })),
        clock(),
      )
      const list = uri('/newly_refused_addresses')
      return {
        body: {
          newly_refused_addresses: found.map((each, index) => toNewlyRefused(each, causes[index], uri)),
          uri: list,
          next_page_uri: next ? pageUri(list, { ...query, before: formatPlace(next) }) : null,
        },
      }
    },
  }),
]
