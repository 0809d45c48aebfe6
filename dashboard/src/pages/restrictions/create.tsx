import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { answerOf, api } from '../../api/client.ts'
import { PolicyPicker } from '../../policy_picker.tsx'
import { type TrafficType, traffic, trafficTypes } from '../../traffic.ts'
import { Button } from '../../ui/button.tsx'
import { Choice } from '../../ui/choice.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/field.tsx'
import { ProblemNote } from '../../ui/problem.tsx'

/** Always starts with warnings, so that you see what it would refuse before it refuses anything. */
export function CreateRestriction({ onClose }: { onClose: () => void }) {
  const [description, setDescription] = useState('')
  const [type, setType] = useState<TrafficType>('api')
  const [policies, setPolicies] = useState<string[]>([])
  const client = useQueryClient()
  const create = useMutation({
    mutationFn: () =>
      answerOf(api.POST('/ip_restrictions', { body: { description, type, enforced: false, ip_policy_ids: policies } })),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ['restrictions'] })
      onClose()
    },
  })
  return (
    <Dialog title="Create restriction" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate()
        }}
      >
        <Field label="Description" autoFocus value={description} onChange={setDescription} placeholder="offices only" />
        <Choice
          label="For"
          value={type}
          onChange={(value) => setType(value as TrafficType)}
          options={trafficTypes.map((value) => ({ value, label: `${traffic[value].title}: ${traffic[value].what}` }))}
        />
        <PolicyPicker chosen={policies} onChange={setPolicies} />
        <p className="note plain">
          The restriction starts with warnings only. Enforce it once you have reviewed what it would refuse.
        </p>
        {create.isError && <ProblemNote error={create.error} />}
        <div className="actions">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isDisabled={policies.length === 0} isPending={create.isPending}>
            Create with warnings only
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
