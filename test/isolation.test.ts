// Who may do what to whose: every operation × every kind of caller × every kind of id, made from the list of routes.
// A new resource adds a few lines to isolation/expectations.ts; until then this file fails.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Route } from '../src/http/route.ts'
import { type Id, type IdPrefix, newId, toUuid } from '../src/kernel/ids.ts'
import { routes } from '../src/resources/routes.ts'
import type { Answer, Client } from './harness/client.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { isThorough } from './harness/thorough.ts'
import type { Expectation } from './isolation/expectation.ts'
import { expectations, writeTo } from './isolation/expectations.ts'
import {
  absentId,
  auditedAccounts,
  type Call,
  callOf,
  contentsOf,
  gapsBetween,
  gatherCast,
  type Ids,
  tellingPart,
  variationsOf,
} from './isolation/matrix.ts'

const plane = await startControlPlane({ after }, { env: { GATEHOUSE_TRUSTED_PROXIES: '127.0.0.1' } })
writeTo(plane.db)
const cast = await gatherCast(plane)
const { admin, member, viewer, otherAdmin } = cast
let calls = 0

const nothing = async (): Promise<Ids> => ({})
const isMutating = ({ method }: Route, { changesNothing }: Expectation) => method !== 'GET' && !changesNothing

/** Runs calls that must be refused, and shows that not a single row of the database changed, audit included. */
async function withoutAnyChange(work: () => Promise<void>): Promise<void> {
  const before = await contentsOf(plane.db)
  await work()
  assert.deepEqual(await contentsOf(plane.db), before, 'a refused or reading call changed the database')
}

/** Every operation but one: all of the other resources, and its neighbors one by one. */
function scopesWithout(operation: string): string[] {
  const resourceOf = (name: string) => name.split('.')[0]
  const others = routes.map((route) => route.operation).filter((other) => other !== operation)
  return [
    ...new Set(others.map((other) => (resourceOf(other) === resourceOf(operation) ? other : `${resourceOf(other)}.*`))),
  ]
}

function expectStatus(answer: Answer, status: number, what: string): Answer {
  calls++
  assert.equal(answer.status, status, `${what}: ${answer.text}`)
  return answer
}

function expectAlike(answers: Answer[], what: string): void {
  for (const answer of answers) assert.deepEqual(tellingPart(answer), tellingPart(answers[0] ?? answer), what)
}

test('every operation has an expectation, and every expectation an operation', () => {
  assert.deepEqual(gapsBetween(routes, expectations), [])
  const [route] = routes
  assert.ok(route)
  const nested = {
    ...route,
    operation: 'new.get',
    path: '/new/:new_id/parts/:id',
    params: { new_id: 'ak', id: 'usr' },
  } as const
  assert.deepEqual(gapsBetween([nested], {}), ['new.get has no expectation'])
  assert.deepEqual(gapsBetween([], { 'gone.get': {} }), ['gone.get is expected, but there is no such route'])
  assert.deepEqual(gapsBetween([nested], { 'new.get': {} }), ['new.get needs path() in its expectation'])
})

test('with two ids in a path each is foreign, absent, malformed and mismatched in turn', () => {
  const idsOf = (whose: string) => ({ edge_id: `${whose}-edge`, id: `${whose}-route` })
  const [own, foreign, sibling] = [idsOf('own'), idsOf('foreign'), idsOf('sibling')]
  const made = variationsOf({ edge_id: 'edghts', id: 'edghtsrt' }, { own, foreign, sibling })
  const of = (parameter: string, what: string) =>
    made.filter((each) => each.parameter === parameter && each.what === what).map(({ ids }) => ids)
  assert.deepEqual(of('edge_id', 'foreign'), [{ edge_id: 'foreign-edge', id: 'own-route' }])
  assert.deepEqual(of('id', 'foreign'), [{ edge_id: 'own-edge', id: 'foreign-route' }])
  assert.deepEqual(of('edge_id', 'mismatched'), [{ edge_id: 'sibling-edge', id: 'own-route' }])
  assert.deepEqual(of('id', 'mismatched'), [{ edge_id: 'own-edge', id: 'sibling-route' }])
  assert.equal(of('id', 'absent').length, 1)
  assert.ok(of('edge_id', 'malformed').every(({ edge_id, id }) => id === 'own-route' && edge_id !== 'own-edge'))
})

for (const [number, route] of routes.entries()) {
  const expected = expectations[route.operation]
  if (!expected) continue
  const { path = nothing, body = () => undefined } = expected
  const bodyFor = async (as: Client) => (route.body ? await body(as) : undefined)
  const [asAdmin, asMember, asViewer, asOther] = [admin, member, viewer, otherAdmin].map((client) =>
    callOf(route, client),
  ) as [Call, Call, Call, Call]
  const forViewer = expected.viewer ?? (isMutating(route, expected) ? 403 : expected.member)

  test(`${route.operation} gives everyone without a valid key the same refusal, for every id`, async () => {
    const targets = { own: await path(admin), foreign: await path(otherAdmin), sibling: await path(admin) }
    const sent = await bodyFor(admin)
    await withoutAnyChange(async () => {
      const answers: Answer[] = []
      const all = [targets.own, ...variationsOf(route.params ?? {}, targets).map(({ ids }) => ids)]
      for (const [turn, [who, [client, options]]] of Object.entries(cast.refused).entries()) {
        const call = callOf(route, client, options)
        // Where the body is what signs in, it has to be theirs.
        const theirs = route.signsIn ? { token: options ? '' : client.token } : sent
        // Each of them uses its own and a foreign id, and they share the others.
        for (const ids of all.filter((_, index) => isThorough || index < 2 || (index + number) % 4 === turn))
          answers.push(expectStatus(await call(ids, theirs), 401, who))
      }
      expectAlike(answers, 'a 401 tells which key or which id it was')
    })
  })

  // Numbers have no owner: generations are counted for the whole installation.
  if (Object.values(route.params ?? {}).some((kind) => kind !== 'number')) {
    test(`${route.operation} gives the same answer for foreign, absent and malformed ids`, async () => {
      const targets = { own: await path(admin), foreign: await path(otherAdmin), sibling: await path(admin) }
      const sent = await bodyFor(admin)
      const sentByOther = await bodyFor(otherAdmin)
      await withoutAnyChange(async () => {
        const all = variationsOf(route.params, targets)
        for (const [call, status, variations] of [
          [asAdmin, 404, all],
          // For admin-only operations, a member gets 403 before anything is looked up.
          [
            asMember,
            route.access === 'admin' ? 403 : 404,
            all.filter(({ what }, index) => isThorough || what !== 'malformed' || (index + number) % 4 === 0),
          ],
        ] as const) {
          const byParameter = new Map<string, Answer[]>()
          for (const { parameter, what, ids } of variations) {
            const answer = expectStatus(await call(ids, sent), status, `${what} ${parameter}`)
            if (what !== 'mismatched') byParameter.set(parameter, [...(byParameter.get(parameter) ?? []), answer])
          }
          for (const [parameter, answers] of byParameter)
            expectAlike(answers, `the answer tells whose ${parameter} it is`)
        }
        const absent = Object.fromEntries(
          Object.entries(route.params).map(([name, kind]) => [name, absentId(kind as IdPrefix | 'request')]),
        )
        const answers = [await asOther(targets.own, sentByOther), await asOther(absent, sentByOther)]
        for (const answer of answers) expectStatus(answer, 404, "another account's admin")
        expectAlike(answers, "another account's admin learns that it exists")
      })
    })
  }

  test(`${route.operation} allows a viewer, a member, an admin and another account's admin what each may do, and audits it`, async () => {
    const attempts = (
      [
        ['viewer', asViewer, admin, admin, forViewer],
        ['member', asMember, admin, admin, expected.member],
        ['member on own', asMember, member, admin, expected.memberOnOwn],
        ['admin', asAdmin, admin, admin, expected.admin],
        ["other account's admin", asOther, otherAdmin, otherAdmin, expected.admin],
      ] as const
    ).filter(([, , , , status]) => status !== undefined)
    const changesNothing = ([, , , , status]: (typeof attempts)[number]) =>
      Number(status) >= 400 || !isMutating(route, expected)
    const prepared = async ([who, call, maker, account, status]: (typeof attempts)[number]) => {
      const [ids, sent] = [await path(maker), await bodyFor(account)]
      return async () => expectStatus(await call(ids, sent), Number(status), who)
    }
    const harmless: (() => Promise<Answer>)[] = []
    for (const attempt of attempts.filter(changesNothing)) harmless.push(await prepared(attempt))
    if (harmless.length)
      await withoutAnyChange(async () => {
        for (const attempt of harmless) await attempt()
      })
    for (const attempt of attempts.filter((each) => !changesNothing(each))) {
      const [who, , , account] = attempt
      const audited = await auditedAccounts(plane.db, await (await prepared(attempt))())
      assert.deepEqual(audited, [toUuid(account.accountId as Id)], `${who}: the accounts with an audit event of it`)
    }
  })

  test(`${route.operation} is refused to a key with every other scope, and allowed to a key with only this one`, async () => {
    const newKey = async (scopes: string[]) => (await admin('POST', '/api_keys', { scopes })).body
    const [lacking, having] = [await newKey(scopesWithout(route.operation)), await newKey([route.operation])]
    const ids = expected.onlyOnItself ? { id: having.id } : await path(admin)
    const callWith = async (token: string, theseIds: Ids) => {
      const sent = route.signsIn ? { token } : await bodyFor(admin)
      return () => callOf(route, plane.clientFor(token))(theseIds, sent)
    }
    const attempts = [await callWith(lacking.token, ids), await callWith(lacking.token, await path(otherAdmin))]
    await withoutAnyChange(async () => {
      const answers: Answer[] = []
      for (const attempt of attempts) answers.push(expectStatus(await attempt(), 403, 'every other scope'))
      for (const { body: refusal } of answers) {
        assert.equal(refusal.error_code, 'ERR_SCOPE')
        assert.deepEqual([refusal.details.operation, refusal.details.missing], [route.operation, route.operation])
      }
      expectAlike(answers, 'a key without the scope learns that it exists')
    })
    const allowed = await callWith(having.token, ids)
    expectStatus(await allowed(), expected.scoped ?? expected.admin, 'only this scope')
  })

  for (const [field, reference] of Object.entries(expected.references ?? {})) {
    test(`${route.operation} accepts the account's own ${field}, and gives the same refusal for a foreign and an absent one`, async () => {
      const [make, value] = Array.isArray(reference)
        ? [reference[0], (id: string) => [id]]
        : [reference, (id: string) => id]
      const [own, foreign, ids] = [await make(admin), await make(otherAdmin), await path(admin)]
      const absent = newId(own.slice(0, own.lastIndexOf('_')) as 'ak')
      const sent = await bodyFor(admin)
      await withoutAnyChange(async () => {
        const [theirs, nobodys] = [
          expectStatus(await asAdmin(ids, { ...sent, [field]: value(foreign) }), 400, 'foreign'),
          expectStatus(await asAdmin(ids, { ...sent, [field]: value(absent) }), 400, 'absent'),
        ]
        const without = (answer: Answer, id: string) => ({ ...answer, text: answer.text.replaceAll(id, 'id') })
        expectAlike([without(theirs, foreign), without(nobodys, absent)], `the answer tells whose ${field} it is`)
      })
      expectStatus(await asAdmin(ids, { ...sent, [field]: value(own) }), route.success, 'own')
    })
  }

  const { lists } = expected
  if (lists) {
    test(`${route.operation} shows only the account's own resources`, async () => {
      const [mine, theirs] = [await lists(admin), await lists(otherAdmin)]
      for (const [call, ours, foreign] of [
        [asAdmin, mine, theirs],
        [asOther, theirs, mine],
        ...(expected.member < 400 ? [[asMember, mine, theirs] as const] : []),
      ] as const) {
        const { text } = expectStatus(await call({}), 200, 'list')
        assert.ok(text.includes(ours), 'the list misses what is there')
        assert.ok(!text.includes(foreign), "the list shows another account's")
      }
    })
  }

  for (const [parameter, make] of Object.entries(expected.filters ?? {})) {
    test(`${route.operation} finds nothing by another account's ${parameter}`, async () => {
      const foreign = await make(otherAdmin)
      const absent = newId(foreign.slice(0, foreign.lastIndexOf('_')) as 'ak')
      const answers = [foreign, absent].map((id) => asAdmin({}, undefined, `?${parameter}=${id}`))
      expectAlike(await Promise.all(answers), `the answer tells whose ${parameter} it is`)
      assert.ok(!(await answers[0])?.text.includes(foreign))
    })
  }
}

test('the matrix made real calls', (t) => {
  t.diagnostic(`${routes.length} operations, ${calls} calls judged`)
  assert.ok(calls > routes.length * 20)
})
