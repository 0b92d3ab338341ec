package usage

// Level is how close to its limit a consumer is.
type Level int

const (
	// Below means that it uses less than the threshold.
	Below Level = iota
	// Near means that it uses as much as the threshold, or more.
	Near
	// Reached means that it uses its whole limit.
	Reached
	// Exceeded means that it uses more than its current limit.
	Exceeded
)

// hysteresisPercent is how far, in percent of the limit, usage has to fall below a level before the consumer leaves it.
// So small changes do not move a consumer between levels.
const hysteresisPercent = 5

// Level returns the level of a consumer, from its previous level and its threshold.
func (u Usage) Level(before Level, thresholdPercent int) Level {
	for level := Exceeded; level > Below; level-- {
		if u.is(level, thresholdPercent, 0) || level <= before && u.is(level, thresholdPercent, hysteresisPercent) {
			return level
		}
	}
	return Below
}

// is reports whether a consumer is at a level, or less than lessPercent of its limit below it. Exceeded has no such
// margin.
func (u Usage) is(level Level, thresholdPercent, lessPercent int) bool {
	switch {
	case u.Used == 0, u.IsFeature:
		return false
	case level == Exceeded:
		return u.Used > u.Limit
	case level == Reached:
		thresholdPercent = 100
	}
	used, bound := float64(u.Used)*100, float64(u.Limit)*float64(thresholdPercent-lessPercent)
	return used > bound || used == bound && lessPercent == 0
}
