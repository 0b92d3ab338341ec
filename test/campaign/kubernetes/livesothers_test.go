package kubernetes

import (
	"cmp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// otherSteps are the steps of everything but Pods.
func (l *life) otherSteps() []func() bool {
	volume, service, configMap, job := &corev1.PersistentVolumeClaim{}, &corev1.Service{}, &corev1.ConfigMap{}, &batchv1.Job{}
	steps := []func() bool{
		l.createVolume, l.createVolume, l.expandVolume, l.expandVolume, l.allocateVolume, l.shrinkVolume,
		l.createService, l.createService, l.changeService, l.changeService,
		l.createConfigMap, l.createConfigMap, l.createJob, l.createJob, l.scaleJob, l.endJobPod, l.endJobPod,
	}
	for _, kind := range []client.Object{volume, service, configMap, job} {
		steps = append(steps, func() bool { return l.deleteAny(kind) }, func() bool { return l.releaseAny(kind) })
	}
	return steps
}

// change makes a step of any object of a kind that is ready for it.
func change[T client.Object](l *life, what string, kind T, isReady func(T) bool, do func(T) error) bool {
	var names []string
	for _, object := range l.listOf(kind, l.namespace(byCore)) {
		if isReady(object.(T)) {
			names = append(names, object.GetName())
		}
	}
	if len(names) == 0 {
		return false
	}
	slices.SortFunc(names, cmp.Compare)
	name := oneOf(l, names...)
	return l.both(what+" "+name, func(namespace string) error {
		object := kind.DeepCopyObject().(T)
		if err := l.Get(l.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
			return err
		}
		return do(object)
	})
}

// listOf returns the objects of a kind in a namespace.
func (l *life) listOf(kind client.Object, namespace string) []client.Object {
	var list client.ObjectList
	switch kind.(type) {
	case *corev1.Pod:
		list = &corev1.PodList{}
	case *corev1.PersistentVolumeClaim:
		list = &corev1.PersistentVolumeClaimList{}
	case *corev1.Service:
		list = &corev1.ServiceList{}
	case *corev1.ConfigMap:
		list = &corev1.ConfigMapList{}
	case *batchv1.Job:
		list = &batchv1.JobList{}
	}
	if err := l.List(l.Context(), list, client.InNamespace(namespace)); err != nil {
		l.Fatal(err)
	}
	return objectsOf(list)
}

// create makes an object in both namespaces, sometimes with a finalizer.
func (l *life) create(what string, object client.Object) bool {
	if l.IntN(4) == 0 {
		object.SetFinalizers([]string{hold})
	}
	return l.both("create "+what+" "+object.GetName(), func(namespace string) error {
		created := object.DeepCopyObject().(client.Object)
		created.SetNamespace(namespace)
		return l.Create(l.Context(), created)
	})
}

func storageOf(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func (l *life) createVolume() bool {
	size, class := oneOf(l, "1Gi", "2Gi", "3Gi"), oneOf(l, "gold", "silver")
	volume := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: l.nextName("volume")}}
	volume.Spec = corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class, VolumeName: volume.Name,
		Resources: corev1.VolumeResourceRequirements{Requests: storageOf(size)},
	}
	return l.create(size+" "+class, volume)
}

// expandVolume expands a volume, which has to be bound.
func (l *life) expandVolume() bool {
	more := resource.MustParse(oneOf(l, "1Gi", "4Gi"))
	return change(l, "expand by "+more.String(), &corev1.PersistentVolumeClaim{}, isUndeleted, func(volume *corev1.PersistentVolumeClaim) error {
		if volume.Status.Phase != corev1.ClaimBound {
			volume.Status.Phase, volume.Status.Capacity = corev1.ClaimBound, volume.Spec.Resources.Requests.DeepCopy()
			if err := l.setStatus(volume); err != nil {
				return err
			}
		}
		size := volume.Spec.Resources.Requests[corev1.ResourceStorage]
		size.Add(more)
		volume.Spec.Resources.Requests[corev1.ResourceStorage] = size
		return l.Update(l.Context(), volume)
	})
}

func isUndeleted(volume *corev1.PersistentVolumeClaim) bool { return volume.DeletionTimestamp == nil }

// allocateVolume has a storage system begin an expansion.
func (l *life) allocateVolume() bool {
	return change(l, "allocate", &corev1.PersistentVolumeClaim{}, isUndeleted, func(volume *corev1.PersistentVolumeClaim) error {
		volume.Status.AllocatedResources = volume.Spec.Resources.Requests.DeepCopy()
		return l.setStatus(volume)
	})
}

// shrinkVolume takes an expansion back. What was allocated stays.
func (l *life) shrinkVolume() bool {
	isLarger := func(volume *corev1.PersistentVolumeClaim) bool {
		return volume.DeletionTimestamp == nil && volume.Spec.Resources.Requests.Storage().Cmp(volume.Status.Capacity[corev1.ResourceStorage]) > 0 &&
			volume.Status.Phase == corev1.ClaimBound && volume.Status.AllocatedResources != nil
	}
	return change(l, "take back the expansion of", &corev1.PersistentVolumeClaim{}, isLarger, func(volume *corev1.PersistentVolumeClaim) error {
		size := volume.Status.Capacity[corev1.ResourceStorage]
		size.Add(resource.MustParse("1")) // Kubernetes wants more than there was
		volume.Spec.Resources.Requests[corev1.ResourceStorage] = size
		return l.Update(l.Context(), volume)
	})
}

// shape gives a Service a type and ports.
func (l *life) shape(service *corev1.Service, kind corev1.ServiceType, ports int, allocates *bool) {
	service.Spec.Type, service.Spec.AllocateLoadBalancerNodePorts = kind, nil
	if kind == corev1.ServiceTypeLoadBalancer {
		service.Spec.AllocateLoadBalancerNodePorts = allocates
	}
	service.Spec.Ports = nil
	for port := range int32(ports) { //nolint:gosec // it is a few
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: string('a' + port), Port: 80 + port})
	}
}

// anyShape draws a type and the number of ports.
func (l *life) anyShape() (kind corev1.ServiceType, ports int, allocates *bool) {
	return oneOf(l, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer), 1 + l.IntN(2), oneOf(l, new(true), new(false), nil)
}

func (l *life) createService() bool {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: l.nextName("service")}}
	kind, ports, allocates := l.anyShape()
	l.shape(service, kind, ports, allocates)
	return l.create(string(kind), service)
}

func (l *life) changeService() bool {
	kind, ports, allocates := l.anyShape()
	return change(l, "make a "+string(kind)+" of", &corev1.Service{}, func(s *corev1.Service) bool { return s.DeletionTimestamp == nil }, func(service *corev1.Service) error {
		l.shape(service, kind, ports, allocates)
		return l.Update(l.Context(), service)
	})
}

func (l *life) createConfigMap() bool {
	return l.create("ConfigMap", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: l.nextName("map")}})
}

// createJob makes a Job. In a tight life it is suspended, because the Job controller waits for longer and longer after
// a denial: nobody would know when it has done what it can.
func (l *life) createJob() bool {
	parallelism := int32(1 + l.IntN(3))           //nolint:gosec // it is a few
	completions := parallelism + int32(l.IntN(3)) //nolint:gosec // so is this
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: l.nextName("job")}, Spec: batchv1.JobSpec{
		Parallelism: &parallelism, Completions: &completions, Suspend: &l.isTight,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: l.containers("c", 1)}},
	}}
	return l.create("Job", job)
}

func isOpen(job *batchv1.Job) bool {
	return job.DeletionTimestamp == nil && job.Status.CompletionTime == nil
}

func (l *life) scaleJob() bool {
	parallelism := int32(l.IntN(4)) //nolint:gosec // it is a few
	return change(l, "scale", &batchv1.Job{}, isOpen, func(job *batchv1.Job) error {
		job.Spec.Parallelism = &parallelism
		return l.Update(l.Context(), job)
	})
}

// endJobPod has a Pod of a Job succeed. The Job makes another one, or ends.
func (l *life) endJobPod() bool {
	running := func(job *batchv1.Job, namespace string) []client.Object {
		return slices.DeleteFunc(l.listOf(&corev1.Pod{}, namespace), func(pod client.Object) bool {
			return pod.GetLabels()[batchv1.JobNameLabel] != job.Name || !isLive(pod.(*corev1.Pod))
		})
	}
	hasPod := func(job *batchv1.Job) bool { return isOpen(job) && len(running(job, l.namespace(byCore))) > 0 }
	return change(l, "end a Pod of", &batchv1.Job{}, hasPod, func(job *batchv1.Job) error {
		pod := running(job, job.Namespace)[0].(*corev1.Pod)
		pod.Status.Phase = corev1.PodSucceeded
		return l.setStatus(pod)
	})
}

func (l *life) deleteAny(kind client.Object) bool {
	policy := oneOf(l, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan)
	return change(l, "delete ("+string(policy)+")", kind, func(o client.Object) bool { return o.GetDeletionTimestamp() == nil }, func(o client.Object) error {
		return l.Delete(l.Context(), o, client.PropagationPolicy(policy))
	})
}

// releaseAny removes the finalizers of an object under deletion. Those of the garbage collector end by themselves.
func (l *life) releaseAny(kind client.Object) bool {
	return change(l, "release", kind, func(o client.Object) bool { return o.GetDeletionTimestamp() != nil && !hasCascade(o) }, func(o client.Object) error {
		o.SetFinalizers(nil)
		return l.Update(l.Context(), o)
	})
}

func hasCascade(object client.Object) bool {
	return slices.Contains(object.GetFinalizers(), metav1.FinalizerDeleteDependents) || slices.Contains(object.GetFinalizers(), metav1.FinalizerOrphanDependents)
}
