import type { Expectation } from './expectation.ts'
import { id, make } from './make.ts'

const newTest = () => ({ address: '192.0.2.1', target: { type: 'dashboard' }, expect: 'allowed' })
const accessTest = make('/access_tests', newTest)

export const accessTestExpectations: Record<string, Expectation> = {
  'access_tests.create': { admin: 201, member: 403, body: newTest },
  'access_tests.get': { admin: 200, member: 200, path: id(accessTest) },
  'access_tests.list': { admin: 200, member: 200, lists: accessTest },
  'access_tests.update': { admin: 200, member: 403, path: id(accessTest), body: () => ({ description: 'other' }) },
  'access_tests.delete': { admin: 204, member: 403, path: id(accessTest) },
}
