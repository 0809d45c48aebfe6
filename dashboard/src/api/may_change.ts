import { $api } from './client.ts'

/** Whether to offer changes at all: viewers only read. Who may change what exactly is the API's to say. */
export const useMayChange = (): boolean => {
  const role = $api.useQuery('get', '/caller').data?.role
  return role !== undefined && role !== 'viewer'
}
