import { $api } from '../../api/client.ts'
import { Section } from '../../ui/section.tsx'
import { ChangeList } from './list.tsx'

/** Changes of one resource, below its details. Only admins may read the audit log. */
export function History({ resourceId }: { resourceId: string }) {
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  if (!isAdmin) return null
  return (
    <Section title="History">
      <ChangeList resourceId={resourceId} />
    </Section>
  )
}
