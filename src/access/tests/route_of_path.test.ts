import assert from 'node:assert/strict'
import { test } from 'node:test'
import { routesOfPath } from './route_of_path.ts'

/** `2 /admin`: a prefix; `3 =/admin`: exact; with `!`, its policies also decide about other spellings. */
function route(text: string) {
  const [, id = '', guards, exact, match = ''] = /^(\d+) (!?)(=?)(.*)$/.exec(text) ?? []
  return { id, match, guards: guards !== '', match_type: exact ? ('exact_path' as const) : ('path_prefix' as const) }
}
const found = (path: string, ...routes: string[]) => {
  const { serving, guarding } = routesOfPath(routes.map(route), path)
  return [serving?.id, guarding?.id]
}

test('the route with the longest match serves a path, and an exact match only its own path', () => {
  const routes = ['1 /', '2 /admin', '3 =/admin', '4 /admin/keys', '5 =/admin/keys/']
  assert.deepEqual(found('/', ...routes), ['1', undefined])
  assert.deepEqual(found('/administrator', ...routes), ['1', undefined])
  assert.deepEqual(found('/admin', ...routes), ['3', undefined])
  assert.deepEqual(found('/admin/', ...routes), ['2', undefined])
  assert.deepEqual(found('/admin/x', ...routes), ['2', undefined])
  assert.deepEqual(found('/admin/keys', ...routes), ['4', undefined])
  assert.deepEqual(found('/admin/keys/', ...routes), ['5', undefined])
  assert.deepEqual(found('/admin/keys/', ...routes.toReversed()), ['5', undefined])
  assert.deepEqual(found('/ADMIN', ...routes), ['1', undefined])
  assert.deepEqual(found('/ADMIN', '2 /admin'), [undefined, undefined])
})

test('the older of two routes with the same match serves', () => {
  assert.deepEqual(found('/a/b', '2 /a', '1 /a/', '3 /a'), ['1', undefined])
  assert.deepEqual(found('/a', '2 =/a', '1 =/%61'), ['1', undefined])
})

test('a route that guards other spellings must allow them too, as long as no closer route serves the path', () => {
  assert.deepEqual(found('/ADMIN', '1 /', '2 !/admin'), ['1', '2'])
  assert.deepEqual(found('/Admin/x', '1 /', '2 !/admin'), ['1', '2'])
  assert.deepEqual(found('/admin/', '1 /', '2 !=/admin'), ['1', '2'])
  assert.deepEqual(found('/ADMIN/x', '1 /', '2 !=/admin'), ['1', undefined])
  assert.deepEqual(found('/ADMIN', '1 /', '2 /admin'), ['1', undefined])
  assert.deepEqual(found('/admin', '1 /', '2 !/admin'), ['2', undefined], 'it serves the path itself')
  assert.deepEqual(found('/ADMIN/x', '1 /ADMIN/x', '2 !/admin'), ['1', undefined], 'a closer one serves it')
  assert.deepEqual(found('/ADMIN', '1 /ADMIN', '2 !/admin'), ['1', '2'], 'one as close serves it')
  assert.deepEqual(found('/ADMIN', '2 !/admin'), [undefined, undefined], 'none serves it')
})

test('a route whose match has an encoded slash, which nodes refuse, serves and guards nothing', () => {
  assert.deepEqual(found('/a/b', '1 /', '2 !/a%2Fb'), ['1', undefined])
  assert.deepEqual(found('/a%2Fb', '2 !/a%2Fb'), [undefined, undefined])
})
