import { $api } from './client.ts'

/** Whether to offer changes at all: viewers only read. The API decides about each change. */
export const useMayChange = (): boolean => {
  const role = $api.useQuery('get', '/caller').data?.role
  return role !== undefined && role !== 'viewer'
}
