package apiserver

import (
	"io"

	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"gopkg.in/natefinch/lumberjack.v2"
)

const (
	// logFileMegabytesMax is the size at which a log file is put aside and a new one begun.
	logFileMegabytesMax = 16
	// logFilesKept is how many log files that were put aside are kept.
	logFilesKept = 1
)

// NewLogFile appends to the file at path, readable by its owner only, and begins a new one before
// it grows too large.
func NewLogFile(path string) io.WriteCloser {
	return &lumberjack.Logger{Filename: path, MaxSize: logFileMegabytesMax, MaxBackups: logFilesKept}
}

// etcdLog is where etcd writes its warnings and errors.
type etcdLog struct {
	*zap.Logger
	file io.WriteCloser
}

func newEtcdLog(path string) *etcdLog {
	file := NewLogFile(path)
	encoder := zapcore.NewJSONEncoder(logutil.DefaultZapLoggerConfig.EncoderConfig)
	return &etcdLog{Logger: zap.New(zapcore.NewCore(encoder, zapcore.AddSync(file), zap.WarnLevel)), file: file}
}

func (l *etcdLog) close() { _ = l.file.Close() }
