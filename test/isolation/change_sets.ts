import type { Expectation } from './expectation.ts'
import { id, make } from './make.ts'

const newSet = () => ({ changes: [{ operation: 'ip_policies.create' }] })
const changeSet = make('/change_sets', newSet)

export const changeSetExpectations: Record<string, Expectation> = {
  'change_sets.create': { admin: 201, member: 201, body: newSet },
  'change_sets.get': { admin: 200, member: 200, path: id(changeSet) },
  'change_sets.list': { admin: 200, member: 200, lists: changeSet },
  'change_sets.update': { admin: 200, member: 200, path: id(changeSet), body: () => ({ description: 'other' }) },
  'change_sets.preview': {
    admin: 200,
    member: 200,
    viewer: 403,
    path: id(changeSet),
    body: () => ({}),
    changesNothing: true,
  },
  // It may make no other change than the one of its scope.
  'change_sets.apply': { admin: 200, member: 200, scoped: 409, path: id(changeSet), body: () => ({}) },
  'change_sets.delete': { admin: 204, member: 204, path: id(changeSet) },
}
