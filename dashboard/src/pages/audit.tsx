import { usePeople } from '../api/people.ts'
import { Choice } from '../ui/choice.tsx'
import { Field } from '../ui/field.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { useUrlState } from '../ui/use_url_state.ts'
import { ChangeList } from './audit/list.tsx'

export function Audit() {
  const people = usePeople() ?? []
  const [owner, setOwner] = useUrlState<string>('by', '')
  const [resource, setResource] = useUrlState<string>('resource', '')
  const resourceId = /^[a-z]+_[0-9a-z]{26}$/.test(resource.trim()) ? resource.trim() : undefined
  return (
    <>
      <PageHeader
        title="Audit log"
        summary="Every change, recorded in the same transaction as the change itself. Entries cannot be edited."
      />
      <div className="bar filters">
        <Choice
          label="User or bot"
          value={owner}
          onChange={setOwner}
          options={[
            { value: '', label: 'Everyone' },
            ...people.map(({ id, name, kind }) => ({ value: id, label: kind === 'bot' ? `${name} (bot)` : name })),
          ]}
        />
        <Field
          label="Resource"
          mono
          value={resource}
          onChange={setResource}
          placeholder="An id: ak_…, ipp_…, edghts_…"
          error={
            resource.trim() && !resourceId ? 'Enter a complete id, such as ak_ followed by 26 characters.' : undefined
          }
        />
      </div>
      <ChangeList ownerId={owner || undefined} resourceId={resourceId} />
    </>
  )
}
